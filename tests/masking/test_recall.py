"""The id of a masked text, and which texts are kept under one."""

import json
from collections.abc import Sequence

import pytest

from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies, read_request
from masking.window import MaskPolicy
from masking.window.placeholder import (
    encode_text,
    is_recall_id,
    masked_texts,
    parse_template,
    recall_id,
    recall_id_of,
)
from tests.support.builders import OLD, policy
from tests.support.images import png
from tests.support.marks import as_one_test
from tests.support.priced import rewrite_request
from tests.support.wire_conversations import (
    IN_EVERY_FORMAT,
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Tools,
    User,
    Writer,
    turn,
    turns,
)

TEMPLATE = "<{recall}>"
RECALLED = MaskPolicy(True, 1, False, None, TEMPLATE, mask_text_parts=True)


def mask(writer: Writer, steps: Sequence[Step], strategies: Strategies) -> tuple[str, list[str]]:
    """Return the body that leaves, and the texts that are to be kept."""
    items = [item for step in steps for item in writer.spell(step)]
    body = json.dumps(writer.wrap(items)).encode()
    rewrite = rewrite_request(read_request(body, writer.wire, writer.path), strategies)
    return rewrite.body.decode(), [*masked_texts(rewrite.decisions)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "e4a6a0577479b2b4", id="no text"),
        pytest.param("old output", "e035d40c25f42a19", id="ASCII"),
        pytest.param("é😀\r\n", "dbea92f5eb3bd064", id="other letters"),
        pytest.param("\ud800", "4208783e927d0d68", id="half a surrogate pair"),
    ],
)
def test_an_id_depends_on_the_text_alone_and_is_the_same_for_ever(text: str, expected: str) -> None:
    assert expected == recall_id(text) == recall_id_of(encode_text(text))
    assert is_recall_id(expected)


@as_one_test
@pytest.mark.parametrize("text", ["", "0" * 15, "0" * 17, "A" * 16, "g" * 16, "\u0661" * 16])
def test_what_is_no_id(text: str) -> None:
    assert not is_recall_id(text)


@as_one_test
@IN_EVERY_FORMAT
def test_each_placeholder_names_the_text_that_is_kept(writer: Writer) -> None:
    steps = [User(), *turn("a", f"1 {OLD}"), *turn("b", f"2 {OLD}"), *turns(1)]
    body, kept = mask(writer, steps, Strategies(schema1=RECALLED))
    assert [f"1 {OLD}", f"2 {OLD}"] == kept
    assert all(body.count(f"<{recall_id(text)}>") == 1 for text in kept)
    assert [] == mask(writer, steps[:-2], Strategies(schema1=policy(RECALLED, enabled=False)))[1]


def test_what_will_be_redacted_has_no_id_and_is_kept_nowhere() -> None:
    redaction = RedactionPolicy(True, ("shell",), "(redacted)")
    steps = [User(), *turn("a", f"1 {OLD}", "read"), *turn("b", f"2 {OLD}"), *turns(1)]
    strategies = Strategies(schema1=RECALLED, redaction=redaction)
    body, kept = mask(WRITERS[0], steps, strategies)
    assert [f"1 {OLD}"] == kept
    assert "(redacted)" in body
    assert f"2 {OLD}" not in body


@as_one_test
@IN_EVERY_FORMAT
def test_a_placeholder_with_any_id_is_left_alone(writer: Writer) -> None:
    before, other = f"<{recall_id(OLD)}>", f"<{'f' * 16}>"
    steps = [User(), *turn("a", before), *turn("b", other), *turns(1)]
    assert [] == mask(writer, steps, Strategies(schema1=RECALLED))[1]


@as_one_test
@IN_EVERY_FORMAT
def test_the_placeholder_spells_the_arguments_of_the_call(writer: Writer) -> None:
    spelled = policy(RECALLED, placeholder_template="<{arguments}>")
    call = Model((Ask("a", "shell", {"command": "cat a.py"}),))
    steps = [User(), call, Tools((Give("a"),)), *turns(1)]
    body, kept = mask(writer, steps, Strategies(schema1=spelled))
    assert [OLD] == kept
    expected = parse_template("<{arguments}>").render("a", "shell", OLD, {"command": "cat a.py"})
    assert json.dumps(expected)[1:-1].replace(" ", "") in body.replace(" ", "")
    again = [User(), call, Tools((Give("a", _first_text(writer, body)),)), *turns(1)]
    assert [] == mask(writer, again, Strategies(schema1=spelled))[1]


def _first_text(writer: Writer, body: str) -> str:
    """Return the placeholder in a masked request."""
    return read_request(body.encode(), writer.wire, writer.path).results[0].texts[0]


@as_one_test
@pytest.mark.parametrize("writer", [w for w in WRITERS if w.has_lists], ids=lambda w: w.name)
def test_each_text_of_a_list_is_kept_by_itself(writer: Writer) -> None:
    parts = (f"1 {OLD}", f"2 {OLD}")
    steps = [User(), *turn("a", parts), *turns(1)]  # type: ignore[arg-type]
    body, kept = mask(writer, steps, Strategies(schema1=RECALLED))
    assert [*parts] == kept
    assert all(body.count(f"<{recall_id(text)}>") == 1 for text in kept)


@as_one_test
@pytest.mark.parametrize("writer", [w for w in WRITERS if w.has_lists], ids=lambda w: w.name)
def test_a_text_that_stays_is_not_kept(writer: Writer) -> None:
    steps = [User(), *turn("a", ("short", OLD)), *turns(1)]  # type: ignore[arg-type]
    assert [OLD] == mask(writer, steps, Strategies(schema1=RECALLED))[1]


@as_one_test
@pytest.mark.parametrize("writer", [w for w in WRITERS if w.has_images], ids=lambda w: w.name)
def test_an_image_is_not_kept(writer: Writer) -> None:
    images = policy(RECALLED, mask_images=True, keep_last_images=0)
    steps = [
        User(),
        Model((Ask("a"),)),
        Tools((Give("a", OLD, images=(png(800, 600),)),)),
        *turns(1),
    ]
    body, kept = mask(writer, steps, Strategies(schema1=images))
    assert [OLD] == kept
    assert "[image: png 800x600 masked]" in body


@as_one_test
@IN_EVERY_FORMAT
def test_what_redaction_and_reduction_replace_is_not_kept(writer: Writer) -> None:
    steps = [User(), *turn("a", OLD), Model(text="Done."), User(), *turns(1)]
    redaction = RedactionPolicy(True, ("shell",), "<{tool_name}>")
    assert [] == mask(writer, steps, Strategies(schema1=RECALLED, redaction=redaction))[1]
    reduction = ReductionOptions(enabled=True, max_input_chars=10, preserve_recent_raw_turns=1)
    assert [] == mask(writer, steps, Strategies(reduction=reduction))[1]
