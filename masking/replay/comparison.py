"""A conversation under three policies: everything sent, the window sliding, and the chosen one."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from masking.measures.tokens import TokenCounter
from masking.model import CHANGES
from masking.replay.first_masked import NEVER
from masking.replay.replay import Course, Session, Step, replay
from masking.replay.reread import Rereads, count_rereads
from masking.replay.session_index import Transcript, read_transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A conversation's requests in order, with the window sliding and under the chosen policy.

    What sending everything costs is in either, as the bill before masking.
    """

    name: str
    window_turns: int
    sliding: tuple[Step, ...]
    chosen: tuple[Step, ...]
    sliding_rereads: Rereads
    chosen_rereads: Rereads


def compare(
    session: Session,
    course: Course,
    counter: TokenCounter,
    passed_over: Counter[str] | None = None,
) -> list[Comparison]:
    """Replay a session; return its conversations, numbered where there are several.

    What cannot be replayed is counted by the reason.
    """
    chosen = [*replay(session, course, counter, passed_over)]
    sliding = [*replay(session, replace(course, slides=True), counter)]
    transcript = read_transcript(session, course, counter)
    rereads = [_count_rereads(steps, transcript) for steps in (sliding, chosen)]
    slid, chose = _split(sliding), _split(chosen)
    return [
        Comparison(
            name=f"{session.name} #{number}" if len(chose) > 1 else session.name,
            window_turns=course.policy.window_turns,
            sliding=tuple(slid[number]),
            chosen=tuple(steps),
            sliding_rereads=rereads[0][number],
            chosen_rereads=rereads[1][number],
        )
        for number, steps in chose.items()
    ]


def _split(steps: Iterable[Step]) -> dict[int, list[Step]]:
    split: defaultdict[int, list[Step]] = defaultdict(list)
    for step in steps:
        split[step.entry.conversation].append(step)
    return split


def _count_rereads(steps: Sequence[Step], transcript: Transcript) -> dict[int, Rereads]:
    """Return, by conversation, the calls that refer to what their request no longer showed.

    Looked at request by request, as some strategies show a result again that they had replaced.
    """
    references = transcript.references_by_request()
    found: defaultdict[int, Rereads] = defaultdict(Rereads)
    for step, place in zip(steps, transcript.order, strict=True):
        hidden = [0 if reason in CHANGES else NEVER for reason in step.reasons]
        found[step.entry.conversation] += count_rereads(references[place], hidden)
    return found
