"""What the contract says of a request that was rewritten; it asks nothing of the code under test.

Every byte outside the replaced values is the client's, and what is replaced is the content of a
tool result that is old enough, or that redaction names.
"""

from masking.rewrite import Rewrite
from masking.strategies.order import Strategies
from tests.fuzz.json_nodes import Difference, Node, Where, find_changes, parse, plain
from tests.fuzz.results import Given, Read, read

_BY_ID = ("chat", "messages", "converse", "responses")
"""The formats whose results name their calls, so that the nearest earlier one is theirs."""


def find_fault(
    name: str, body: bytes, rewrite: Rewrite, strategies: Strategies, *, remembers: bool = False
) -> str | None:
    """Return what is wrong with the bytes that are sent; None if nothing is.

    What a process that `remembers` its conversations has masked under other settings stays masked.
    """
    if rewrite.body == body:
        return None if rewrite.body is body else "an equal body is another object"
    if strategies.reduction.reduces:  # it may remove messages
        return None
    before, after = body.decode(), rewrite.body.decode()
    try:
        one = parse(before)
        changes = [*find_changes(before, after, one, parse(after))]
        found = read(name, plain(one))
    except Difference as difference:
        return f"changed: {difference}"
    except RecursionError:
        return None
    if before[: one.start] != after[: one.start] or not changes:
        return "changed outside of the document"
    told = (_judge(name, found, each, strategies, remembers=remembers) for each in changes)
    return next((each for each in told if each), None)


def _judge(
    name: str,
    found: Read,
    change: tuple[Where, Node, Node],
    strategies: Strategies,
    *,
    remembers: bool,
) -> str | None:
    at, old, new = change
    holder = [
        (place, each) for place, each in enumerate(found.given) if at[: len(each.at)] == each.at
    ]
    if not holder:
        return f"changed no content of a result: {at}"
    place, given = holder[-1]
    if wrong := _judge_kind(name, given, at, old, new):
        return f"masked {wrong}: {at}"
    if remembers:
        return None
    if name != "converse" and (wrong := _judge_settings(at[len(given.at) :], old, strategies)):
        return f"masked {wrong}: {at}"
    why_not = _keeps(name, found, given, strategies)
    if why_not and not _may_redact(name, found, place, strategies):
        return f"masked {why_not}: {at}"
    return None


def _judge_kind(name: str, given: Given, at: Where, old: Node, new: Node) -> str | None:
    """Say what is wrong with the kind of value that was replaced, or that was put there."""
    inside = at[len(given.at) :]
    if old.sign == "w" or new.sign in "w[":
        return "a number or a literal"
    if (
        name == "gemini"
        and old.sign == '"'
        and (inside[:1] != ("response",) or inside[-1] == "name")
    ):
        return "a text that is no content"
    is_listed = name in ("chat", "messages", "responses") and bool(inside)
    if is_listed and old.sign == '"' and (len(inside) != 2 or inside[1] != "text"):
        return "a text that is none of a list's texts"
    return None if old.sign in ('"', new.sign) else "a value of another kind"


def _judge_settings(inside: Where, old: Node, strategies: Strategies) -> str | None:
    """Say which setting keeps the kind of value that was replaced."""
    policy = strategies.schema1
    if old.sign == '"' and inside[-1:] == ("text",):
        masks_lists = policy.mask_text_parts or policy.mask_images or strategies.redaction.redacts
        return None if masks_lists else "a text of a list"
    is_image = old.sign == "{" and not {"response", "json"} & {*inside}
    return "an image" if is_image and not policy.mask_images else None


def _keeps(name: str, found: Read, given: Given, strategies: Strategies) -> str | None:
    """Return why the window keeps a result."""
    policy = strategies.schema1
    edge = found.turns - policy.window_turns
    if not policy.masks:
        return "though it is off"
    if given.fails and policy.keep_errors:
        return "an error"
    if name not in _BY_ID:
        no_id = not given.call_id
        return "what is in the window" if no_id and given.turns - 1 >= edge else None
    if type(given.call_id) is not str or not given.call_id:
        return "what names no call"
    if given.turn is not None and given.turn >= edge:
        return "what is in the window"
    if policy.slides and given.tool is not None and (k := policy.keep_last_k_per_tool or 0) > 0:
        last = [each for each in found.given if each.tool == given.tool][-k:]
        if any(each is given for each in last):
            return "one of the last of its tool"
    return None


def _may_redact(name: str, found: Read, place: int, strategies: Strategies) -> bool:
    """Whether redaction may have replaced a result: an answer without calls has come since."""
    redaction, given = strategies.redaction, found.given[place]
    is_answered = any(count > place for count in found.answered)
    is_named = given.tool in redaction.tool_names or given.tool is None or name not in _BY_ID
    return redaction.redacts and is_answered and is_named
