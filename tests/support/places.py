"""The places of files that tests read."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config.toml"
RECORDINGS = ROOT / "recordings"
CONVERSATIONS = ROOT.parent / "shared" / "conversations" / "chat.jsonl.gz"
"""Other people's conversations: tests that use them are skipped where they are absent."""
MESSAGES_CONVERSATIONS = CONVERSATIONS.with_name("messages.jsonl.gz")
"""The same in the form of Anthropic Messages."""
CAPTURED = ROOT.parent / "shared" / "wire"
"""Last requests of sessions of real clients: tests that use them are skipped where absent, too."""
EVIDENCE = ROOT.parent / "shared" / "evidence"
"""Paired runs of others, with masking and without: the same."""


def recordings() -> list[Path]:
    """Return the shipped recordings, by name; those of `clients/` come after the others.

    There is one of each client that speaks another format than Chat Completions.
    """
    folders, names = (RECORDINGS, RECORDINGS / "clients"), ("*.flow", "*.flow.xz")
    return [path for folder in folders for path in sorted(p for n in names for p in folder.glob(n))]
