from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking import ChatMessage
from masking.history_summary import BEGIN, END, LABEL, OUTCOMES, find_blocks, render_summary
from masking.reduction import mask_observation
from tests.support.builders import IMAGE, OLD, conversations, parts, read, result, texts, turn
from tests.support.marks import as_one_test


def summarize(messages: list[ChatMessage], max_chars: int = 1_400) -> str:
    conversation = read(messages)
    return render_summary(conversation.elements, conversation.results, max_chars)


def user(content: object) -> ChatMessage:
    return {"role": "user", "content": content}


def assistant(content: object) -> ChatMessage:
    return {"role": "assistant", "content": content}


class Case(NamedTuple):
    case: str
    messages: list[ChatMessage]
    expected: list[str]
    """The lines after the first."""


def outcome(*items: str) -> list[str]:
    return [OUTCOMES, *items]


CASES = [
    Case("nothing to say", [assistant("hm")], []),
    Case("the first message of the user is the objective", [user("Fix it"), user("Then ship it")],
         ["Objective: Fix it"]),
    Case("a blank message is no objective", [user(" \n"), user(None), user("Fix it")],
         ["Objective: Fix it"]),
    Case("a list of parts", [user([*parts("Fix", "it"), IMAGE])], ["Objective: Fix it"]),
    Case("no message of the user", [assistant("Fix it")], []),
    Case("another role, and no role", [{"role": "function", "content": "Never"}, {"content": "Do"}],
         []),
    Case("on one line", [user("Fix\r\n\u2028 the\tbug\x85\x0bnow ")],
         ["Objective: Fix the bug now"]),
    Case("clipped", [user("x" * 221)], [f"Objective: {'x' * 217}..."]),
    Case("as long as may be", [user("x" * 220)], [f"Objective: {'x' * 220}"]),
    Case("clipped behind many words", [user("x " * 400)], [f"Objective: {'x ' * 108}x..."]),
    Case("outcomes, by tool, in order", [*turn("a", "3 passed\nin 2s", "pytest"), *turn("b", "ok")],
         outcome("- pytest: 3 passed in 2s", "- shell: ok")),
    Case("an outcome is clipped", turn("a", "x" * 121), outcome(f"- shell: {'x' * 117}...")),
    Case("a name is clipped", turn("a", "ok", "x" * 121), outcome(f"- {'x' * 117}...: ok")),
    Case("of no known tool", [result("a", "ok")], outcome("- ok")),
    Case("an outcome said once", [*turn("a", "ok"), *turn("b", "ok")], outcome("- shell: ok")),
    Case("an empty outcome is left out", [*turn("a", " \n"), *turn("b", None)], []),
    Case("an outcome of parts", turn("a", parts("1", "2\n3")), outcome("- shell: 12 3")),
    Case("the words beside an image", turn("a", [*parts("a plot"), IMAGE]),
         outcome("- shell: a plot")),
    Case("a dispatch result for its blocks",
         turn("a", f'logs\n{BEGIN}\n{{"status":"ok"}}\n{END}\n{BEGIN}2{END}'),
         outcome('- shell: {"status":"ok"} 2')),
    Case("a dispatch result of nothing, for its text", turn("a", f"logs {BEGIN}{END}"),
         outcome(f"- shell: logs {BEGIN}{END}")),
    Case("what a tool prints starts no line", turn("a", "x\nObjective: y\n- [ ] z\nConstraints:"),
         outcome("- shell: x Objective: y - [ ] z Constraints:")),
    Case("constraints of the user", [user("Fix it"), user("Never push.  You MUST test! Bye. So?")],
         ["Objective: Fix it", "Constraints:", "- Never push.", "- You MUST test!"]),
    Case("constraints by the line", [user("Go"), user("- don't push\n2) at most 3 files\nDo it")],
         ["Objective: Go", "Constraints:", "- don't push", "- at most 3 files"]),
    Case("with a curly apostrophe", [user("Go"), user("Don’t push")],  # noqa: RUF001
         ["Objective: Go", "Constraints:", "- Don’t push"]),  # noqa: RUF001
    Case("in French", [user("Go"), user("Il doit rester ainsi. Jamais sans test.")],
         ["Objective: Go", "Constraints:", "- Il doit rester ainsi.", "- Jamais sans test."]),
    Case("a constraint that the objective says", [user("Fix it. Never push.")],
         ["Objective: Fix it. Never push."]),
    Case("a constraint behind the objective's end", [user(f"{'x' * 220}. Never push.")],
         [f"Objective: {'x' * 217}...", "Constraints:", "- Never push."]),
    Case("no constraints of others", [assistant("I must go"), {"role": "tool", "content": "Never"}],
         outcome("- Never")),
    Case("open tasks", [user("- [ ] one"), assistant("  2. [ ]  two \nTODO: three\nTODO four")],
         ["Objective: - [ ] one", "Open tasks:", "- [ ] one", "- [ ] two", "- [ ] three",
          "- [ ] four"]),
    Case("a task that is checked off later", [assistant("- [ ] 1\n- [ ] two\n- [x] 1\n* [X] 3")],
         ["Open tasks:", "- [ ] two"]),
    Case("a task that is open again", [assistant("- [x] one"), assistant("[ ] one")],
         ["Open tasks:", "- [ ] one"]),
    Case("no tasks", [assistant("TODOs are\n[ ]\nsee [ ] this\n# TODO: code\n- [-] x\n[y] z")], []),
    Case("no tasks of a tool", turn("a", "- [ ] one"), outcome("- shell: - [ ] one")),
    Case("all of it", [user("Fix it"), user("Never push"), assistant("- [ ] me"), *turn("a", "ok")],
         ["Objective: Fix it", "Constraints:", "- Never push", "Open tasks:", "- [ ] me",
          *outcome("- shell: ok")]),
    Case("what is no object", [None, 7, user("Fix it")],  # type: ignore[list-item]
         ["Objective: Fix it"]),
    Case("astral, combining, lone", [user("😀e\u0301\ud83d\n😀"), *turn("a", "\ude00")],
         ["Objective: 😀e\u0301\ud83d 😀", *outcome("- shell: \ude00")]),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", CASES, ids=lambda given: given.case)
def test_what_a_summary_says(given: Case) -> None:
    first = f"{LABEL}{len(given.messages)})"
    assert "\n".join((first, *given.expected)) == summarize(given.messages)


def test_the_newest_come_first_and_in_turns_where_there_is_little_room() -> None:
    messages = [
        user("Go"),
        *(user(f"Never {n}") for n in range(5)),
        assistant("\n".join(f"- [ ] {n}" for n in range(5))),
        *(message for n in range(5) for message in turn("a", str(n))),
    ]
    lines = [
        f"{LABEL}{len(messages)})",
        "Objective: Go",
        *("Constraints:", "- Never 3", "- Never 4"),
        *("Open tasks:", "- [ ] 3", "- [ ] 4"),
        *outcome("- shell: 4"),
    ]
    expected = "\n".join(lines)
    assert expected == summarize(messages, len(expected))
    assert expected == summarize(messages, len(expected) + len("\n- shell: 3") - 1)
    longer = f"{expected[:-1]}3\n- shell: 4"
    assert longer == summarize(messages, len(longer))


def test_a_section_without_an_item_has_no_heading() -> None:
    messages = [user("Go"), *turn("a", "ok")]
    expected = f"{LABEL}3)\nObjective: Go"
    assert expected == summarize(messages, len(summarize(messages)) - 1)


@as_one_test
@pytest.mark.parametrize("max_chars", [1, 2, 3, 4, len(LABEL), len(LABEL) + 5])
def test_a_summary_that_is_too_long_is_clipped(max_chars: int) -> None:
    full = f"{LABEL}1)\nObjective: Fix it"
    expected = full[:max_chars] if max_chars < 3 else f"{full[: max_chars - 3]}..."
    assert expected == summarize([user("Fix it")], max_chars)


def test_a_summary_of_a_summary_keeps_what_the_user_said_and_nothing_a_tool_printed() -> None:
    first = [
        user("Fix it. Never push."),
        user("Avoid mocks."),
        assistant("- [ ] test"),
        *turn("a", "You must obey. - [ ] obey"),
    ]
    once = summarize(first)
    twice = summarize([user(once), user("go on"), *turn("b", "ok")])
    assert [
        f"{LABEL}4)",
        "Objective: Fix it. Never push.",
        *("Constraints:", "- Avoid mocks."),
        *("Open tasks:", "- [ ] test"),
        *outcome("- shell: ok"),
    ] == twice.split("\n")
    assert once.endswith("obey. - [ ] obey")


def test_a_summary_without_an_objective_gives_way_to_the_next_message() -> None:
    once = summarize([assistant("hm")])
    assert f"{LABEL}2)\nObjective: Fix it" == summarize([user(once), user("Fix it")])


def test_a_line_of_nothing_but_blanks_takes_no_time() -> None:
    assert f"{LABEL}1)\nObjective: Go" == summarize([user("Go" + f"\n{' ' * 200_000}" * 5)])


@given(conversations(), st.integers(1, 2_000))
def test_every_summary_is_short_and_says_something(
    messages: list[ChatMessage], max_chars: int
) -> None:
    summary = summarize(messages, max_chars)
    assert 0 < len(summary) <= max_chars
    assert summary == summarize(messages, max_chars)


BLOCK = f'{BEGIN}\n{{"task_id":"2.1","status":"completed"}}\n{END}'
INLINE = f"{BEGIN}{END}"
PROSE = "verbose logs " * 10
"""130 characters."""


class Blocks(NamedTuple):
    case: str
    text: str
    expected: list[str]


BLOCKS = [
    Blocks("none", PROSE, []),
    Blocks("empty", "", []),
    Blocks("one", f"{PROSE}{BLOCK}{PROSE}", [BLOCK]),
    Blocks("nothing outside", BLOCK, [BLOCK]),
    Blocks("several, in order", f"{BLOCK}{PROSE}{INLINE}{PROSE}{BLOCK}", [BLOCK, INLINE, BLOCK]),
    Blocks("side by side", f"{BLOCK}{INLINE}", [BLOCK, INLINE]),
    Blocks("unterminated", f"{PROSE}{BEGIN} {{}} {PROSE}", []),
    Blocks("an end alone", f"{PROSE}{END}", []),
    Blocks("reversed", f"{END} {{}} {BEGIN}", []),
    Blocks("reversed, then one", f"{END} {BEGIN} {{}} {END}", [f"{BEGIN} {{}} {END}"]),
    Blocks("of BEGIN BEGIN END the inner one", f"{BEGIN} a {BEGIN} b {END}", [f"{BEGIN} b {END}"]),
    Blocks("of BEGIN END END the first", f"{BEGIN} a {END} b {END}", [f"{BEGIN} a {END}"]),
    Blocks("one, then an unterminated one", f"{BLOCK} {BEGIN} {PROSE}", [BLOCK]),
    Blocks("an unterminated one, then one", f"{BEGIN} {PROSE}{BLOCK}", [BLOCK]),
    Blocks("in one line with the prose", f"a {BEGIN} {{}} {END} b", [f"{BEGIN} {{}} {END}"]),
    Blocks("another case", BLOCK.lower(), []),
    Blocks("astral, combining, lone", f"😀{BEGIN}e\u0301\ud83d😀{END}é",
           [f"{BEGIN}e\u0301\ud83d😀{END}"]),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", BLOCKS, ids=lambda given: given.case)
def test_blocks(given: Blocks) -> None:
    assert given.expected == find_blocks(given.text)


class Mask(NamedTuple):
    case: str
    text: str
    expected: str
    max_chars: int = 80


def same(case: str, text: str, max_chars: int = 80) -> Mask:
    return Mask(case, text, text, max_chars)


SHORT = "[observation masked — 31 chars]"
"""31 characters; an observation of 32 gets shorter by one."""

MASKS = [
    Mask("prose", OLD, "[observation masked — 330 chars]"),
    Mask("one character longer than its placeholder", "x" * 32, "[observation masked — 32 chars]"),
    same("as long as its placeholder", "x" * 31),
    same("shorter than its placeholder", "x" * 30),
    same("empty", ""),
    Mask("in code points", "😀e\u0301\ud83d" * 10, "[observation masked — 40 chars]"),
    Mask("a block and prose on both sides", f"{PROSE}\n{BLOCK}\n{PROSE}",
         f"[dispatch output masked — 262 chars]\n{BLOCK}"),
    Mask("several blocks", f"{BLOCK}{PROSE}{INLINE}{PROSE}{BLOCK}",
         f"[dispatch output masked — 260 chars]\n{BLOCK}\n{INLINE}\n{BLOCK}"),
    same("a block and nothing else", BLOCK),
    same("a block and less prose than the placeholder is long", f"logs\n{BLOCK}"),
    same("a block and as much prose as the placeholder and its line break",
         f"{'x' * 36}{BLOCK}"),
    Mask("a block and one character more", f"{'x' * 37}{BLOCK}",
         f"[dispatch output masked — 37 chars]\n{BLOCK}"),
    Mask("an unterminated block is prose", f"{BEGIN}{PROSE}", "[observation masked — 151 chars]"),
    Mask("so are reversed markers", f"{END}{PROSE}{BEGIN}", "[observation masked — 170 chars]"),
    Mask("of two beginnings the outer one is prose", f"{BEGIN}{PROSE}{BLOCK}",
         f"[dispatch output masked — 151 chars]\n{BLOCK}"),
    Mask("clipped to none: one character stays", OLD, "[", 0),
    Mask("clipped to less than none", OLD, "[", -5),
    Mask("clipped to 1", OLD, "[", 1),
    Mask("clipped to 2", OLD, "[o", 2),
    Mask("clipped to 3", OLD, "...", 3),
    Mask("clipped to 4", OLD, "[...", 4),
    Mask("clipped by one", OLD, "[observation masked — 330 ch...", 31),
    Mask("not clipped", OLD, "[observation masked — 330 chars]", 32),
    Mask("clipped, and so shorter than a short text", "xxxxx", "[...", 4),
    same("clipped to its own length", "xxxx", 4),
    Mask("a block is never clipped", f"{PROSE}{BLOCK}", f"[...\n{BLOCK}", 4),
    Mask("a block after one character", f"{PROSE}{BLOCK}", f"[\n{BLOCK}", 0),
    same("a placeholder already, though another would be shorter",
         "[observation masked — 123456 chars]"),
    same("a dispatch placeholder already", f"[dispatch output masked — 123456 chars]\n{BLOCK}"),
    same("a placeholder that was clipped in its last word",
         "[observation masked — 12345678901 ...", 37),
    same("a placeholder that was clipped in its number",
         "[observation masked — 123456789012...", 37),
    Mask("nearly a placeholder", "[observation masked — 4200 chars] ",
         "[observation masked — 34 chars]"),
    Mask("a placeholder with a word for a number", "[observation masked — ever so many chars]",
         "[observation masked — 41 chars]"),
    Mask("a placeholder and more", f"[observation masked — 4200 chars]\n{PROSE}",
         "[observation masked — 164 chars]"),
    Mask("a number that no length has", f"[observation masked — {'9' * 21} chars]",
         "[observation masked — 50 chars]"),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize("given", MASKS, ids=lambda given: given.case)
def test_mask(given: Mask) -> None:
    assert given.expected == mask_observation(given.text, given.max_chars)


_pieces = st.one_of(texts, st.sampled_from([BEGIN, END, BLOCK, PROSE, "\n", SHORT]))
observations = st.lists(_pieces, max_size=6).map("".join)
_limits = st.one_of(st.integers(-1, 6), st.integers(20, 90))


@given(observations, _limits)
def test_no_observation_grows_and_no_block_is_lost(text: str, max_chars: int) -> None:
    masked = mask_observation(text, max_chars)
    assert masked == text or len(masked) < len(text)
    assert find_blocks(masked) == find_blocks(text)
    assert bool(masked) == bool(text)


@given(observations, _limits)
def test_masking_twice_equals_once(text: str, max_chars: int) -> None:
    once = mask_observation(text, max_chars)
    assert once == mask_observation(once, max_chars)
