"""A conversation under three policies: everything sent, the window sliding, and the chosen one."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from masking.analysis.replay import Course, Session, Step, replay
from masking.analysis.tokens import TokenCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A conversation's requests in order, with the window sliding and under the chosen policy.

    What sending everything costs is in either, as the bill before masking.
    """

    name: str
    window_turns: int
    sliding: tuple[Step, ...]
    chosen: tuple[Step, ...]


def compare(
    session: Session,
    course: Course,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> list[Comparison]:
    """Replay a session; return its conversations, numbered where there are several.

    What cannot be replayed is counted by the reason.
    """
    chosen = _split(replay(session, course, counter, passed_over))
    sliding = _split(replay(session, replace(course, slides=True), counter))
    return [
        Comparison(
            name=f"{session.name} #{number}" if len(chosen) > 1 else session.name,
            window_turns=course.policy.window_turns,
            sliding=tuple(sliding[number]),
            chosen=tuple(steps),
        )
        for number, steps in chosen.items()
    ]


def _split(steps: Iterable[Step]) -> dict[int, list[Step]]:
    split: defaultdict[int, list[Step]] = defaultdict(list)
    for step in steps:
        split[step.entry.conversation].append(step)
    return split
