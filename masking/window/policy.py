"""What a user sets about the window: one frozen policy, which declares each setting."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal

from masking.errors import ConfigError
from masking.setting import check_settings, describes_settings, from_zero, globs, names, setting
from masking.window.placeholder import (
    DEFAULT_ARGUMENTS_CHARS,
    MAX_ARGUMENTS_CHARS,
    SHIPPED_TEMPLATE,
    Rendering,
    parse_template,
)

DEFAULT_TEMPLATE = (
    "[Observation masquée: résultat d’outil ancien "  # noqa: RUF001 - the template's own spelling
    "(tool_call_id={tool_call_id}, outil={tool_name}, chars={original_chars})]"
)

BoundReasoning = Literal["keep", "try", "drop"]

CERTAIN = 0.95
"""Part of the promise that estimates may spend. Of 158 sessions with texts of every kind the worst
request then stands at 1.105 where 1.1 is promised (`python -m tests.tools.benchmarks.promise`)."""


def _check_window(turns: object, path: str) -> None:
    if not isinstance(turns, int) or isinstance(turns, bool):
        raise ConfigError("expected a whole number", path)


def _check_arguments(chars: int, path: str) -> None:
    if not 0 <= chars <= MAX_ARGUMENTS_CHARS:
        raise ConfigError(f"must be from 0 to {MAX_ARGUMENTS_CHARS}", path)


@describes_settings
@dataclass(frozen=True)
class MaskPolicy:
    """Which old tool results are masked, and by which words.

    `MaskPolicy()` masks nothing: `enabled` is false. `MaskPolicy(enabled=True)` masks each tool
    result before the last 8 tool turns that is a string, unless it looks like an error, even where
    the placeholder is longer. The words are those of the design document, in French:

        [Observation masquée: résultat d’outil ancien (tool_call_id=a, outil=ls, chars=168)]

    The first five settings are the design document's. What host and model charge is no setting: see
    `BoundaryPrices`. Lengths are in code points. A number of turns, results, or images that is 0 or
    less, or None, is off. Frozen and hashable.

    Raises ConfigError (a ValueError), which names the setting, for a value that cannot be meant.
    """  # noqa: RUF002 - the template's own spelling

    enabled: bool = setting(
        False,
        "Mask old tool results. `false` also ends shortening: without redaction or reduction, "
        "requests go out as the agent wrote them.",
        shipped=True,
    )
    window_turns: int = setting(
        8,
        "How many of the latest tool turns keep their results; 0 turns masking off. A tool turn "
        "is an assistant message with tool calls, and their results. For OpenHands, the default "
        "is 36.",
        check=_check_window,
    )
    keep_errors: bool = setting(
        True,
        "Keep results that look like errors, no matter how old.",
    )
    keep_last_k_per_tool: int | None = setting(
        None,
        "Keep the last K results of each tool; 0 turns this off.",
        shipped=0,
    )
    placeholder_template: str = setting(
        DEFAULT_TEMPLATE,
        "Text of the placeholder, sent for every masked result. Fields: `{tool_call_id}` and "
        "`{tool_name}` (at most 64 characters each), `{original_chars}`, `{original_tokens}` "
        "(estimated), `{arguments}` of the call, and `{recall}`, the ID of the kept result.",
        shipped=SHIPPED_TEMPLATE,
        check=lambda template, _: parse_template(template),
    )
    _: KW_ONLY
    error_words_max_chars: int = setting(
        2_000,
        "Up to this many characters, one word such as `traceback` makes a result an error. At any "
        "length, so does a line that starts like one (a traceback, `SomethingError: ...`, a "
        "non-zero exit code), or JSON with one (`error`, `status`, `exit_code`, `returncode`, "
        "`success`).",
        check=from_zero,
    )
    keep_tools: tuple[str, ...] = setting(
        (),
        "Keep these tools' results, no matter how old. In patterns, `*` matches any text, `?` one "
        "character, and `[ab]` one of these.",
        check=globs,
    )
    mask_tools: tuple[str, ...] = setting(
        (),
        "Mask only these tools' results; if empty, all tools'. `keep_tools` comes first.",
        check=globs,
    )
    keep_arguments: tuple[str, ...] = setting(
        (),
        "Keep the results of calls with a string argument whose whole value matches one of these "
        'patterns: `["*/PLAN.md"]`.',
        check=globs,
    )
    keep_latest_turns: int = setting(
        0,
        "Keep the latest result of each target (same tool, same path-like argument) for this many "
        "turns; 0 turns this off.",
    )
    target_arguments: tuple[str, ...] = setting(
        ("file_path", "path", "filename", "filePath"),
        "The arguments that can name a target; the first that a call has is used.",
        check=names,
    )
    keep_rereads: bool = setting(
        False,
        "If the agent repeats a call (same tool, same arguments) whose result has left the "
        "window, keep the new result. Costs a few points of the bill, and spares few calls.",
    )
    placeholder_arguments_chars: int = setting(
        DEFAULT_ARGUMENTS_CHARS,
        "Shorten `{arguments}` to this many characters (at most 1000), on one line.",
        check=_check_arguments,
    )
    skip_if_not_shorter: bool = setting(
        False,
        "Don't mask a result unless its placeholder is shorter, in characters and estimated "
        "tokens. Always on where moving the boundary has a price.",
        shipped=True,
    )
    mask_text_parts: bool = setting(
        False,
        "Also mask the text of results that are lists of parts (qwen-code, OpenHands); other "
        "parts stay.",
        shipped=True,
    )
    mask_images: bool = setting(
        False,
        "Also mask images in old results, such as screenshots: each becomes a text (`[image: png "
        "1280x800 masked]`).",
    )
    keep_last_images: int = setting(
        3,
        "With `mask_images`, keep the results that hold the last K images; 0 turns this off.",
    )
    bound_reasoning: BoundReasoning = setting(
        "keep",
        "What to do with results that later reasoning is bound to, as with the newest models: "
        '`"keep"` masks none; `"try"` masks them where Anthropic accepts that, which one request '
        'finds out; `"drop"` also where the provider then drops the reasoning. Needs the memory.',
        shipped="try",
    )
    min_chars: int = setting(
        0,
        "Don't mask results shorter than this many characters.",
        check=from_zero,
    )
    max_loss: float = setting(
        0.10,
        "The most that masking may add to a conversation's bill, at every request, as a fraction "
        "of it (estimated tokens, at the prices in use).",
        check=from_zero,
    )

    def __post_init__(self) -> None:
        check_settings(self)

    @cached_property
    def masks(self) -> bool:
        """Whether this policy can mask anything at all."""
        return self.enabled and self.window_turns > 0

    @cached_property
    def pins(self) -> bool:
        """Whether it keeps results because of the others: the last of a tool, the latest."""
        last_k = self.keep_last_k_per_tool or 0
        return last_k > 0 or self.kept_images > 0 or self.keep_latest_turns > 0

    @cached_property
    def wanted_arguments(self) -> tuple[str, ...]:
        """The arguments that tell a call's target, where that matters."""
        return self.target_arguments if self.masks and self.keep_latest_turns > 0 else ()

    @cached_property
    def kept_images(self) -> int:
        """How many of the last images stay because they are the last."""
        return max(0, self.keep_last_images) if self.mask_images else 0

    @cached_property
    def estimated_loss(self) -> float:
        """How much may be lost in estimated tokens, so that `max_loss` holds in real ones."""
        return CERTAIN * self.max_loss

    @cached_property
    def shrinking_rendering(self) -> Rendering:
        """How this policy writes placeholders if moving the boundary has a price.

        What costs more then has no place in the promise.
        """
        return self.rendering._replace(must_shrink=True)

    @cached_property
    def rendering(self) -> Rendering:
        """How this policy writes placeholders in a window that slides."""
        return Rendering(
            self.placeholder_template,
            self.skip_if_not_shorter,
            self.mask_text_parts,
            self.mask_images,
            self.placeholder_arguments_chars,
            max(0, self.min_chars),
        )
