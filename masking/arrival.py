"""At arrival: a long result is shortened the first time it is sent, and stays so in every request.

What a cache has never held costs nothing to change, so this saves at any price of a cached token,
and also where nothing old may be masked. A long text becomes its head, a marker, and its tail.

`decide_arrivals` says which results are shortened. It goes by what a result and its call are, and
by what is remembered of the conversation: what was sent shortened or whole stays so, and what stood
in a conversation when it was first seen stays whole. `shorten` carries that out: the strategies
then get a conversation in which these results are short.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from masking.conversation import Conversation, index_request
from masking.errors import ConfigError
from masking.history_summary import BEGIN, find_blocks
from masking.model import Call, Replacement, ToolResult, by_element, parse_arguments
from masking.setting import check_settings, describes_settings, from_zero, globs, setting
from masking.tokens import estimate_tokens
from masking.window import CallKey, MaskPolicy, call_key, looks_like_error, recall_id
from masking.window.decide import find_tool_reason, is_same
from masking.window.placeholder import (
    DEFAULT_ARGUMENTS_CHARS,
    RECALL_ID_CHARS,
    Template,
    parse_marker,
)
from masking.wire.format import render_json

DEFAULT_MARKER = "\n[... {left_out_chars} of {original_chars} characters left out ...]\n"

FILE_ARGUMENTS = ("file_path", "filePath", "absolute_path", "filename", "path")
"""How the agents that were recorded name a file. A `path` may be a folder that is searched; such a
call has one of these, too:"""

_SEARCHES = ("pattern", "query", "regex")

KEEP_TOOLS = ("[Tt]ask", "[Aa]gent", "[Ss]kill")
"""What a sub-agent reports cannot be had again, and instructions are wanted whole."""

_LINE_REACH = 200
"""How many code points of a head, or of a tail, may be given up for it to end at a line's end."""

LongResultOutcome = Literal[
    "shortened",
    "sent_whole",
    "unknown_call",
    "kept_tool",
    "unlisted_tool",
    "file",
    "recalled",
    "asked_again",
    "error",
    "dispatch",
    "already_shortened",
]

OUTCOMES: Mapping[LongResultOutcome, str] = {
    "shortened": "sent as head and tail",
    "sent_whole": "was sent whole before, or stood in the conversation when it was first seen",
    "unknown_call": "its call is not in the request",
    "kept_tool": "of a tool that keep_tools names",
    "unlisted_tool": "of a tool that only_tools does not name",
    "file": "its call names a file",
    "recalled": "was read back from what is kept for recall",
    "asked_again": "was asked for again, after the result of the same call had been shortened",
    "error": "looks like an error",
    "dispatch": "holds a dispatch result",
    "already_shortened": "is shortened already",
}
"""What becomes of a long result, and why it stays whole."""


class ShortenedWords(NamedTuple):
    """How a result was shortened: a setting that is changed must not change what was sent.

    All but the marker is in code points, as in `ArrivalPolicy`.
    """

    max_chars: int
    head_chars: int
    tail_chars: int
    marker_template: str
    arguments_chars: int = DEFAULT_ARGUMENTS_CHARS


@dataclass(frozen=True, kw_only=True)
class ArrivalSettings:
    """What a user sets. Lengths are in code points."""

    enabled: bool = setting(
        False,
        "Shorten a long tool result to its head and tail the first time it is sent, and from then "
        "on: this saves at any price, even where nothing old may be masked. Errors stay whole, "
        "and so do results of calls that name a file. `false` stops new cuts; earlier ones stay "
        "until `schema1.enabled` is `false`.",
    )
    max_chars: int = setting(
        8_000,
        "Shorten texts longer than this.",
    )
    head_chars: int = setting(
        3_000,
        "How much of their beginning is kept, at most; up to 200 characters less to end at a line "
        "break.",
        check=from_zero,
    )
    tail_chars: int = setting(
        3_000,
        "The same for their end.",
        check=from_zero,
    )
    keep_tools: tuple[str, ...] = setting(
        KEEP_TOOLS,
        "These tools' results stay whole: by default those of sub-agents, whose reports can't be "
        "had again, and of skills.",
        check=globs,
    )
    only_tools: tuple[str, ...] = setting(
        (),
        "Shorten only these tools' results; if empty, all tools'.",
        check=globs,
    )
    file_arguments: tuple[str, ...] = setting(
        FILE_ARGUMENTS,
        "The arguments that name a file: results of calls with one stay whole, because the agent "
        "would read the rest again (but not with `pattern`, `query`, or `regex`: a search). So do "
        "results of shell commands that only print files (`cat`, `sed -n`). If empty, reads are "
        "shortened, too.",
        check=globs,
    )
    marker_template: str = setting(
        DEFAULT_MARKER,
        "Text between head and tail. Fields: `{left_out_chars}`, `{original_chars}`, "
        "`{arguments}` of the call, and `{recall}`, the ID of the whole text.",
        check=lambda template, _: parse_marker(template),
    )

    def __post_init__(self) -> None:
        check_settings(self)


@describes_settings
@dataclass(frozen=True, kw_only=True)
class ArrivalPolicy(ArrivalSettings):
    """Which results are shortened when they arrive, and to what.

    arguments_chars, error_words_max_chars: as `MaskPolicy` has them.

    Raises ConfigError (a ValueError) for what cannot be meant.
    """

    arguments_chars: int = DEFAULT_ARGUMENTS_CHARS
    error_words_max_chars: int = MaskPolicy.error_words_max_chars

    def __post_init__(self) -> None:
        super().__post_init__()
        longest = self.head_chars + self.tail_chars + self.marker.longest
        if longest > self.max_chars:
            raise ConfigError(
                f"must be at least {longest:,}: head, tail and the longest marker", "max_chars"
            )

    @cached_property
    def marker(self) -> Template:
        """What stands between head and tail, parsed."""
        return parse_marker(self.marker_template, self.arguments_chars)

    @cached_property
    def words(self) -> ShortenedWords:
        """How this policy shortens."""
        return ShortenedWords(
            self.max_chars,
            self.head_chars,
            self.tail_chars,
            self.marker_template,
            self.arguments_chars,
        )


NOTHING_ASKED: Mapping[CallKey, bool] = MappingProxyType({})


class LongResult(NamedTuple):
    """A tool result with a text that is longer than `max_chars`, or that was sent shortened.

    place: its position among the request's results, counted from 0.
    words: None unless it is shortened; so it has replacements, too.
    """

    place: int
    outcome: LongResultOutcome
    words: ShortenedWords | None = None
    replacements: tuple[Replacement, ...] = ()


class SentResults(NamedTuple):
    """What is remembered of the results of a request's conversation.

    find_words: how the result at a place was sent shortened; None if it was not.
    was_whole: whether the result at a place was sent whole with this very request before.
    least: only longer texts were ever sent shortened; None if none was.
    asked: of calls that the request does not show, whether the latest result was shortened.
    """

    find_words: Callable[[int], ShortenedWords | None]
    was_whole: Callable[[int], bool]
    least: int | None = None
    asked: Mapping[CallKey, bool] = NOTHING_ASKED


class Arrived(NamedTuple):
    """A request as it arrived, and as it goes on to the strategies.

    client: as its client wrote it.
    conversation: the same if nothing was shortened.
    long_results: what became of its long results.
    """

    client: Conversation
    conversation: Conversation
    long_results: tuple[LongResult, ...] = ()

    @property
    def shortened(self) -> tuple[LongResult, ...]:
        """The results that are shortened."""
        return tuple(each for each in self.long_results if each.outcome == "shortened")


def arrive(
    conversation: Conversation, policy: ArrivalPolicy, sent: SentResults | None = None
) -> Arrived:
    """Shorten the long results of a request.

    Without `sent` the request alone decides, and nothing is shortened if the model may bind its
    reasoning: it might have seen these results whole. Raises WireError if the request cannot be
    edited and proven.
    """
    if sent is None and (not policy.enabled or conversation.binding is not None):
        return Arrived(conversation, conversation)
    return shorten(conversation, decide_arrivals(conversation, policy, sent))


def decide_arrivals(
    conversation: Conversation, policy: ArrivalPolicy, sent: SentResults | None = None
) -> tuple[LongResult, ...]:
    """Decide the long results of a request, in order; without `sent`, by the request alone."""
    results = conversation.results
    if not policy.enabled and (sent is None or sent.least is None):
        return ()

    # Only long results are looked at, and what their content says is worked out once.
    bounds = (policy.max_chars, None if sent is None else sent.least)
    least = min(bound for bound in bounds if bound is not None)
    places = [place for place, result in enumerate(results) if _find_longest(result) > least]
    found = [results[place] for place in places]
    evaluated = conversation.history.map_each(_evaluate, found, policy, is_same=is_same)

    first_new = conversation.last_answer + 1  # what stands there was in no request before
    decided = []
    # By call, whether its latest long result was shortened, and in which turn.
    asked = NOTHING_ASKED if sent is None else sent.asked
    latest = {key: (was_shortened, -1) for key, was_shortened in asked.items()}
    for place, result, own in zip(places, found, evaluated, strict=True):
        turn = -1 if result.turn is None else result.turn  # the call is not in the request
        key = None if turn < 0 else call_key(result.tool, result.arguments)
        outcome, replacements = own or ("sent_whole", ())
        words = None if sent is None else sent.find_words(place)
        if words is not None:
            replacements = shorten_result(result, words)
            outcome = "shortened" if replacements else "sent_whole"
        elif own is None or not policy.enabled:
            continue
        elif outcome != "shortened":
            pass  # exempt by its content, in this request as in those before
        elif sent is not None and (result.element < first_new or sent.was_whole(place)):
            outcome = "sent_whole"
        else:
            words = policy.words
            # An agent that has seen it and asks again gets all of it: shortened once more, it would
            # make the agent ask forever.
            was_shortened, then = (False, 0) if key is None else latest.get(key, (False, 0))
            if was_shortened and then < turn:
                outcome = "asked_again"
        if outcome != "shortened":
            words, replacements = None, ()
        if key is not None:
            latest[key] = outcome == "shortened", turn
        decided.append(LongResult(place, outcome, words, replacements))
    return tuple(decided)


def _find_longest(result: ToolResult) -> int:
    """Return the length of the longest text of a result that may be shortened; 0 without any."""
    if result.kind == "other" or result.wrap is not None:
        return 0
    return max(map(len, result.texts), default=0)


def with_calls(conversation: Conversation, calls: Mapping[str, Call]) -> Conversation:
    """Return a request that shows no calls, with its results bound to those of an earlier answer.

    A call is known by its id.
    """
    results = tuple(
        result._replace(turn=0, tool=call.tool, arguments=call.arguments)
        if result.turn is None and (call := calls.get(result.call_id or "")) is not None
        else result
        for result in conversation.results
    )
    return replace(conversation, results=results)


def find_asked(arrived: Arrived) -> Mapping[CallKey, bool]:
    """Return, by the calls of the long results, whether the latest result was shortened."""
    results = arrived.client.results
    return {
        call_key(result.tool, result.arguments): each.outcome == "shortened"
        for each in arrived.long_results
        if (result := results[each.place]).turn is not None
    }


def shorten(conversation: Conversation, long_results: Sequence[LongResult]) -> Arrived:
    """Return the request with these results shortened. Raises WireError if that cannot be done."""
    results = conversation.results
    replacements = by_element((results[each.place], each.replacements) for each in long_results)
    if not replacements:
        return Arrived(conversation, conversation, tuple(long_results))
    request = conversation.request.shorten(replacements)
    # If it must not be read, it was not until here.
    is_whole = request is conversation.request
    arrived = conversation if is_whole else index_request(request, is_held=True)
    # An element that could not be shortened is whole, and so are its results.
    done = tuple(
        each
        if not each.replacements or arrived.results[each.place].client_texts
        else LongResult(each.place, "sent_whole")
        for each in long_results
    )
    return Arrived(conversation, arrived, done)


class Truncated(NamedTuple):
    """What is left out of the long results of a request.

    results, tokens: how many were shortened, and by how much, by estimate.
    before: the tokens that are left out of its history, where the provider holds that.
    """

    results: int
    tokens: int
    before: int = 0


def measure_left_out(arrived: Arrived, before: int = 0) -> Truncated:
    """Return what is left out of a request, and how much of its history was before."""
    cuts = [each for long in arrived.shortened for each in long.replacements]
    return Truncated(
        results=len(arrived.shortened),
        tokens=sum(each.saves(estimate_tokens) for each in cuts),
        before=before,
    )


def find_lost(arrived: Arrived, policy: ArrivalPolicy) -> Arrived | None:
    """Return a request as it would have been sent had all of it arrived here; None if as it is.

    Only reasoning that is bound to its results tells what was really sent.
    """
    client = arrived.client
    is_bound = client.binding in ("refuses", "may_refuse") and client.last_bound >= 0
    if not (policy.enabled and is_bound):
        return None
    other = shorten(client, decide_arrivals(client, policy))
    places = {each.place for each in arrived.shortened}
    return None if places == {each.place for each in other.shortened} else other


def shortens_bound_prefix(arrived: Arrived) -> bool:
    """Whether reasoning in a request is bound to a result that is shortened."""
    client = arrived.client
    if client.binding is None:
        return False
    shortened = (client.results[each.place].element for each in arrived.shortened)
    return min(shortened, default=len(client.elements)) <= client.last_bound


def shortened_texts(arrived: Arrived | None) -> Iterator[str]:
    """Yield each text that is sent shortened, whole, without what follows it and stays."""
    if arrived is None:
        return
    for each in arrived.shortened:
        yield from arrived.client.results[each.place].texts_replaced(each.replacements)


def find_left_out(arrived: Arrived, shortened: LongResult) -> Iterator[str]:
    """Yield what is left out of each text of a shortened result."""
    words = shortened.words
    if words is None:
        return
    for text in arrived.client.results[shortened.place].texts:
        if len(text) > words.max_chars:
            end, start = find_cut(text, words.head_chars, words.tail_chars)
            yield text[end:start]


def shorten_result(result: ToolResult, words: ShortenedWords) -> tuple[Replacement, ...]:
    """Return the replacements that shorten the long texts of a result; none if none gets shorter.

    Each text of a list is shortened by itself; what follows a text and stays is not counted.
    """
    found = []
    for number, text in enumerate(result.texts):
        shortened = shorten_text(text, words, result.arguments)
        if shortened is not None:
            found.append(result.replace(number, shortened))
    return tuple(found)


def shorten_text(text: str, words: ShortenedWords, arguments: object = None) -> str | None:
    """Return the head of a text, the marker, and its tail; None if it is not to be shortened."""
    if len(text) <= words.max_chars:
        return None
    end, start = find_cut(text, words.head_chars, words.tail_chars)
    marker = parse_marker(words.marker_template, words.arguments_chars)
    between = marker.render("", None, text, arguments, left_out=start - end)
    if start == len(text):  # blanks at the end of a text may be read as what follows it
        between = between.rstrip()
    if len(between) >= start - end:
        return None
    return text[:end] + between + text[start:]


def find_cut(text: str, head_chars: int, tail_chars: int) -> tuple[int, int]:
    """Return where the head of a text ends, and where its tail begins, at line ends if near."""
    end, start = head_chars, len(text) - tail_chars
    last = text.rfind("\n", max(0, end - _LINE_REACH), end)
    if last >= 0:
        end = last + 1
    if tail_chars and text[start - 1] != "\n":
        # The text's own end is none: nothing would be left behind it.
        first = text.find("\n", start, min(start + _LINE_REACH, len(text) - 1))
        if first >= 0:
            start = first + 1
    return end, start


def _evaluate(
    result: ToolResult, policy: ArrivalPolicy
) -> tuple[LongResultOutcome, tuple[Replacement, ...]] | None:
    """Decide a result by what it and its call are; None if it is not long, or no text."""
    if _find_longest(result) <= policy.max_chars:
        return None
    tool = result.tool
    if result.turn is None or tool is None:
        return "unknown_call", ()
    if named := find_tool_reason(tool, policy.keep_tools, policy.only_tools):
        return named, ()
    if policy.file_arguments and reads_file(result, policy.file_arguments):
        return "file", ()
    if _is_recalled(result):
        return "recalled", ()
    if result.is_error or looks_like_error(result.text, policy.error_words_max_chars):
        return "error", ()
    if BEGIN in result.text and find_blocks(result.text):
        return "dispatch", ()
    if policy.marker.is_in(result.text, result.arguments):
        return "already_shortened", ()
    replacements = shorten_result(result, policy.words)
    return ("shortened", replacements) if replacements else None


# Reads of files. An agent that reads a file wants it, and reads again what it does not get: of file
# reads that were shortened, 42% were quoted later, of other results none, over 46 conversations
# (`tests.tools.benchmarks.arrival`).

_READ = re.compile(
    r"(?:cat|sed -n(?![^|;&<>]*\s-(?:[Enrsuz]*i|-in-place))|head|tail|nl|less|bat)\b[^|;&<>]*"
)
_GOES_THERE = re.compile(r"cd [^|;&<>]+(?:&&|;)\s*")
_CUTS = re.compile(r"2>(?:&1|/dev/null)|\|\s*(?:head|tail|nl|cat -n|sed -n)\b[^|;&<>]*")
_NEXT = re.compile(r"&&|;|\n")

_LONGEST_COMMAND = 2_000
"""In code points; a longer one does more than print files."""


def reads_file(result: ToolResult, file_arguments: Sequence[str]) -> bool:
    """Whether a call reads a file: by an argument that names it, or by a shell command."""
    arguments = parse_arguments(result.arguments)
    if any(isinstance(arguments.get(name), str) for name in file_arguments):
        return not any(name in arguments for name in _SEARCHES)
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list):  # ["bash", "-lc", "..."]
        command = command[-1] if command else None
    return isinstance(command, str) and _only_prints_files(command)


def _only_prints_files(command: str) -> bool:
    if len(command) > _LONGEST_COMMAND:
        return False
    command = _CUTS.sub("", _GOES_THERE.sub("", command.strip(), count=1))
    return all(_READ.fullmatch(each.strip()) for each in _NEXT.split(command))


_RECALL_ID = re.compile(rf"(?<![0-9a-zA-Z])[0-9a-f]{{{RECALL_ID_CHARS}}}(?![0-9a-zA-Z])")


def _is_recalled(result: ToolResult) -> bool:
    """Whether a result was read back under its recall id.

    By the tool `recall` or the command `obsmask recall`, whatever that prints beside it; or by any
    other way in which the id is asked for and the very text is given.
    """
    arguments = result.arguments
    asked = arguments if isinstance(arguments, str) else render_json(arguments)
    ids = _RECALL_ID.findall(asked)
    if not ids:
        return False
    return "recall" in f"{result.tool} {asked}" or recall_id(result.text) in ids
