"""Images of old results become texts, in every format that has them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.accounting.prompt import measure, read_prompt
from masking.memory import BoundaryMemory
from masking.model import IMAGE_PLACEHOLDER, Decision, Reason, describe_image
from masking.redaction import RedactionPolicy
from masking.rewrite import Rewrite, Strategies, read_request
from masking.tokens import TokenCounter, count_openai
from masking.window import BoundaryPosition, MaskPolicy, lay_out
from masking.window.boundary import Candidate, EligibleResults, window_edge
from masking.wire.chat import CHAT
from masking.wire.converse import CONVERSE
from masking.wire.format import WireFormat, follow
from masking.wire.gemini import GEMINI
from masking.wire.messages import MESSAGES
from masking.wire.parts import Picture, read_address, read_picture
from masking.wire.responses import RESPONSES
from tests.support.builders import OLD, TEMPLATE, examples, list_places, list_replacements, policy
from tests.support.first_behind import find_first_behind
from tests.support.images import png
from tests.support.marks import as_one_test, thorough
from tests.support.priced import PricedPolicy, evaluate, measure_candidates, rewrite_request
from tests.support.wire_conversations import (
    WRITERS,
    Ask,
    Give,
    Model,
    Step,
    Told,
    Tools,
    User,
    Writer,
    in_each,
    in_two,
    spell,
)

WITH_IMAGES = [writer for writer in WRITERS if writer.has_images]
EVERY_FORMAT = in_each(WITH_IMAGES)

WINDOW = 2
SLIDING = PricedPolicy(
    True, WINDOW, True, None, TEMPLATE, mask_text_parts=True, mask_images=True, keep_last_images=0
)
PRICED = policy(SLIDING, cache_read_ratio=0.1, cache_write_ratio=1.25)
SHOWN = describe_image("png", (1280, 800))


def shot(call_id: str, *images: str, content: str = OLD, fails: bool = False) -> list[Step]:
    """Return a turn whose result has a text and images."""
    given = Give(call_id, content, "browser", fails, images)
    return [Model((Ask(call_id, "browser"),)), Tools((given,))]


def browse(writer: Writer, count: int = 6) -> Told:
    """Return a conversation with a screenshot in each turn."""
    return writer.tell(User(), *(s for n in range(count) for s in shot(f"c{n}", png(mark=str(n)))))


def rewrite(told: Told, policy: MaskPolicy = SLIDING, *, compact: bool = False) -> Rewrite:
    body = json.dumps(told.document, separators=(",", ":")).encode() if compact else told.body
    return rewrite_request(body, policy, told.wire, told.writer.path)


def reasons(decisions: tuple[Decision, ...]) -> list[Reason]:
    return [decision.reason for decision in decisions]


def put_back(rewritten: Rewrite) -> object:
    """Return the document as sent, with what was replaced put back."""
    document: Any = json.loads(rewritten.body)
    places = list_places(rewritten.conversation, rewritten.decisions)
    replaced = list_replacements(rewritten.decisions)
    for (*parents, last), replacement in zip(places, replaced, strict=True):
        place = document
        for step in parents:
            place = place[step]
        assert place[last] == replacement.value
        place[last] = replacement.image.part if replacement.image else replacement.text
    return document


@as_one_test
@EVERY_FORMAT
@pytest.mark.parametrize("compact", [False, True], ids=["with blanks", "without blanks"])
def test_old_images_become_texts_and_nothing_else_changes(writer: Writer, compact: bool) -> None:
    told = browse(writer)
    found = rewrite(told, compact=compact)
    assert ["masked"] * 4 + ["in_window"] * 2 == reasons(found.decisions)
    assert [1, 1, 1, 1, 0, 0] == [decision.images_masked for decision in found.decisions]
    assert told.document == put_back(found)
    assert 4 == found.body.decode().count(SHOWN)
    for n in range(6):
        assert (png(mark=str(n)) in found.body.decode()) == (n >= 4)


@as_one_test
@EVERY_FORMAT
def test_an_image_becomes_a_part_with_a_text(writer: Writer) -> None:
    """Each format spells a text in its own way."""
    spelled = {
        "chat": {"type": "text", "text": SHOWN},
        "messages": {"type": "text", "text": SHOWN},
        "converse": {"text": SHOWN},
        "responses": {"type": "input_text", "text": SHOWN},
    }
    found = rewrite(browse(writer))
    image = list_replacements(found.decisions)[1]
    assert image.image is not None
    assert image.value == spelled.get(writer.name, {"text": SHOWN})
    assert ("", SHOWN) == (image.text, image.placeholder)


@as_one_test
@EVERY_FORMAT
def test_masking_twice_is_masking_once(writer: Writer) -> None:
    short = policy(SLIDING, placeholder_template="-")
    for each in (SLIDING, short, policy(SLIDING, keep_last_images=3)):
        once = rewrite(browse(writer), each)
        again = rewrite_request(once.body, each, writer.wire, writer.path)
        assert once.body is again.body


@as_one_test
@EVERY_FORMAT
def test_a_text_that_is_too_short_stays_so_beside_a_masked_image(writer: Writer) -> None:
    said = "A short text of the tool's."
    told = writer.tell(User(), *shot("a", png(), content=said), *shot("b"), *shot("c"))
    rule = policy(SLIDING, placeholder_template="-", min_chars=len(said) + 1)
    once = rewrite(told, rule)
    assert [SHOWN] == [r.placeholder for r in once.decisions[0].replacements]
    again = rewrite_request(once.body, rule, writer.wire, writer.path)
    assert "too_short" == again.decisions[0].reason
    assert once.body is again.body


@as_one_test
@in_each(WITH_IMAGES[:4])
@pytest.mark.parametrize("template", [TEMPLATE, "-"])
def test_an_image_alone_becomes_a_text_and_stays_so(writer: Writer, template: str) -> None:
    given = Give("a", (), "browser", images=(png(),))
    told = writer.tell(Model((Ask("a", "browser"),)), Tools((given,)), *shot("b"), *shot("c"))
    rule = policy(SLIDING, placeholder_template=template)
    once = rewrite(told, rule)
    assert [SHOWN] == [r.placeholder for r in once.decisions[0].replacements]
    again = rewrite_request(once.body, rule, writer.wire, writer.path)
    assert "already_masked" == again.decisions[0].reason
    assert once.body is again.body
    bare = rewrite(told, policy(rule, mask_images=False))
    assert "not_string" == bare.decisions[0].reason


@as_one_test
@EVERY_FORMAT
def test_images_stay_unless_it_is_asked_for(writer: Writer) -> None:
    found = rewrite(browse(writer), policy(SLIDING, mask_images=False))
    assert all(png(mark=str(n)) in found.body.decode() for n in range(6))
    assert ["masked"] * 4 + ["in_window"] * 2 == reasons(found.decisions)


@as_one_test
@EVERY_FORMAT
def test_images_go_where_the_texts_of_lists_stay(writer: Writer) -> None:
    found = rewrite(browse(writer), policy(SLIDING, mask_text_parts=False))
    replaced = list_replacements(found.decisions)
    images = [r for r in replaced if r.image]
    assert 4 == len(images)
    texts_go = writer.name.startswith(("gemini", "code"))  # there a text stands beside the image
    assert (8 if texts_go else 4) == len(replaced)


@as_one_test
@EVERY_FORMAT
@pytest.mark.parametrize(
    ("images", "keep", "expected"),
    [
        pytest.param([1] * 6, 3, 3, id="one in the window too few"),
        pytest.param([1] * 6, 2, 4, id="all of them in the window"),
        pytest.param([1] * 6, 9, 0, id="more than there are"),
        pytest.param([1, 1, 0, 0, 0, 0], 1, 1, id="long ago"),
        pytest.param([2, 2, 0, 0, 0, 1], 2, 1, id="a result that holds one of them and another"),
    ],
)
def test_the_last_images_stay(writer: Writer, images: list[int], keep: int, expected: int) -> None:
    steps = [s for n, k in enumerate(images) for s in shot(f"c{n}", *[png(mark=str(n))] * k)]
    found = rewrite(writer.tell(User(), *steps), policy(SLIDING, keep_last_images=keep))
    masked = [n for n, decision in enumerate(found.decisions) if decision.images_masked]
    assert [n for n, k in enumerate(images) if k][:expected] == masked
    kept = sum(k for n, k in enumerate(images) if n not in masked)
    assert kept >= min(keep, sum(images))
    last = ["last_images" if k and n not in masked else "masked" for n, k in enumerate(images[:4])]
    assert last == reasons(found.decisions)[:4]


@as_one_test
@EVERY_FORMAT
def test_an_error_keeps_its_images(writer: Writer) -> None:
    told = writer.tell(
        User(),
        *shot("a", png(mark="a"), content="Traceback (most recent call last):\n"),
        *shot("b", png(mark="b"), fails=True),
        *(step for n in range(3) for step in shot(f"c{n}")),
    )
    found = rewrite(told)
    told_error = "error" if writer.tells_errors else "masked"
    assert ["error", told_error, "masked"] == reasons(found.decisions)[:3]


@as_one_test
@EVERY_FORMAT
def test_the_boundary_counts_images(writer: Writer) -> None:
    conversation = browse(writer).read()
    layout = lay_out(conversation)
    judged = evaluate(conversation, SLIDING)
    with_images = measure_candidates(judged, layout)
    without = measure_candidates(evaluate(conversation, policy(SLIDING, mask_images=False)), layout)
    for result, more, less in zip(conversation.results, with_images, without, strict=True):
        (image,) = result.images
        assert 1_000 < image.tokens < 1_500
        assert 1_000 < more.saving - less.saving < image.tokens
        assert 1 == more.images


@in_two(WITH_IMAGES)
def test_images_alone_make_the_boundary_move(writer: Writer) -> None:
    steps = [s for n in range(30) for s in shot(f"c{n}", png(mark=str(n)), content="ok")]
    told = writer.tell(User(), *steps)
    assert 0 == rewrite(told, policy(PRICED, mask_images=False)).body.decode().count(SHOWN)
    found = rewrite(told, policy(PRICED, keep_last_images=3))
    assert found.body.decode().count(SHOWN) >= 20


@in_two(WITH_IMAGES)
@pytest.mark.parametrize("keep", [thorough(0), 3, thorough(9)])
def test_once_masked_an_image_stays_masked(writer: Writer, keep: int) -> None:
    told, before = browse(writer, 24 if keep <= 3 else 40), frozenset[int]()
    rule = policy(PRICED, keep_last_images=keep, window_turns=2)
    for end in range(1, len(told.items) + 1):
        found = rewrite(told.until(end), rule)
        assert before <= found.masked
        before = found.masked
    assert len(before) > 10


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_what_is_ripe_is_what_holds_none_of_the_last_images(
    found: list[tuple[int, bool]], keep: int, window: int
) -> None:
    rule = policy(SLIDING, keep_last_images=keep, window_turns=window)
    results: list[Candidate] = []
    eligible = EligibleResults(results, rule)
    for turn, (images, is_bound) in enumerate(found):
        results.append(Candidate(turn if is_bound else None, turn, 2.0**turn, None, None, images))
        edge = window_edge(rule, turn + 1)
        eligible.advance(edge)
        eligible.receive(len(results))
        last = _find_last(results, keep)
        ripe = [r for n, r in enumerate(results) if r.turn in range(edge) and n not in last]
        assert sum(result.saving for result in ripe) == eligible.saving


def _find_last(results: list[Candidate], keep: int) -> list[int]:
    """Return the results that hold the last images."""
    later = [sum(result.images for result in results[n + 1 :]) for n in range(len(results))]
    return [n for n, result in enumerate(results) if result.images and later[n] < keep]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12),
    st.integers(0, 5),
    st.integers(1, 3),
)
def test_a_replay_masks_each_result_when_it_holds_none_of_the_last_images(
    found: list[tuple[int, bool]], keep: int, window: int
) -> None:
    rule = policy(SLIDING, keep_last_images=keep, window_turns=window)
    results = [
        Candidate(turn if is_bound else None, 0.0, 1.0, None, None, images)
        for turn, (images, is_bound) in enumerate(found)
    ]
    counts = range(1, len(results) + 1)
    boundaries = [BoundaryPosition(window_edge(rule, count), count) for count in counts]
    first = find_first_behind(results, boundaries, counts, rule)
    for request, boundary in enumerate(boundaries):
        last = _find_last(results[: boundary.results], keep)
        behind = [n for n, r in enumerate(results) if r.turn in range(boundary.turn)]
        masked = [n for n in behind if n not in last]
        assert masked == [n for n, since in enumerate(first) if since <= request]


@as_one_test
@EVERY_FORMAT
def test_a_memory_masks_in_the_same_words(writer: Writer) -> None:
    memory = BoundaryMemory()
    lists = writer.has_lists and not writer.name.startswith(("gemini", "code"))

    def send(told: Told, rule: MaskPolicy) -> Rewrite:
        conversation = told.read()
        known = memory.lookup(conversation, 0.0, 300.0)
        found = rewrite_request(conversation, Strategies(schema1=rule), context=known.context)
        memory.store(known, found.past)
        return found

    first = policy(SLIDING, mask_text_parts=False)
    told = browse(writer, 8)
    send(told.until(2), first)
    before = send(told, first)
    replaced = list_replacements(before.decisions)
    images = [r for r in replaced if r.image]
    assert images
    assert lists == (len(images) == len(replaced))
    for other in (SLIDING, policy(SLIDING, mask_images=False), policy(SLIDING, keep_last_images=9)):
        assert before.edits.replacements == send(told, other).edits.replacements


@as_one_test
@EVERY_FORMAT
def test_a_redacted_result_loses_its_old_images_too(writer: Writer) -> None:
    redaction = RedactionPolicy(True, ("browser",), "<gone>")
    steps = [*shot("a", png(mark="a")), Model(text="Done."), User(), *shot("b"), *shot("c")]
    told = writer.tell(User(), *steps)
    strategies = Strategies(redaction=redaction, schema1=SLIDING)
    once = rewrite_request(told.read(), strategies)
    assert ["redacted", "in_window", "in_window"] == reasons(once.decisions)
    assert told.document == put_back(once)
    assert ["<gone>", SHOWN] == [r.placeholder for r in list_replacements(once.decisions)]
    twice = rewrite_request(read_request(once.body, writer.wire, writer.path), strategies)
    assert once.body is twice.body


@as_one_test
@EVERY_FORMAT
def test_an_image_of_a_placeholder_redacted_before_goes_alone(writer: Writer) -> None:
    redaction = RedactionPolicy(True, ("browser",), "<gone>")
    steps = [
        *shot("a", png(mark="a"), content="<gone>"),
        Model(text="Done."),
        *shot("b"),
        *shot("c"),
    ]
    told = writer.tell(User(), *steps)
    found = rewrite_request(
        told.read(),
        Strategies(redaction=redaction, schema1=policy(SLIDING, placeholder_template="<gone>")),
    )
    assert "masked" == found.decisions[0].reason
    assert [SHOWN] == [r.placeholder for r in found.decisions[0].replacements]


def _items(document: dict[str, object], told: Told) -> list[object]:
    for path in told.wire.list_paths:
        if isinstance(value := follow(document, path), list):
            return value
    raise AssertionError(document)


@as_one_test
@EVERY_FORMAT
def test_images_are_tokens_of_the_prompt(writer: Writer) -> None:
    told = browse(writer, 1)
    bare = writer.tell(User(), *shot("c0"))
    (result,) = told.read().results
    with_image, without = (writer.wire.count_parts(t.items[-1])[1] for t in (told, bare))
    assert result.images[0].tokens == with_image - without
    sizes = [writer.wire.measure_element(t.items[-1]).total for t in (told, bare)]
    assert result.images[0].tokens == sizes[0] - sizes[1]


@as_one_test
@EVERY_FORMAT
def test_masked_images_are_measured(writer: Writer) -> None:
    found = rewrite(browse(writer))
    counter = TokenCounter()
    prompt = read_prompt(found, counter)
    sizes = measure(found, prompt)
    tokens = sum(d.result.images[0].tokens for d in found.decisions[:4])
    assert (4, 4) == (sizes.masked, sizes.masked_images)
    saved = prompt.tokens_before - prompt.tokens_after
    assert saved > tokens - 4 * counter.count(SHOWN)
    (first, *_) = list_replacements(found.decisions)
    assert sizes.tool_chars_after == 2 * len(OLD) + 4 * len(first.placeholder)


CASES = st.lists(
    st.tuples(
        st.sampled_from(["ok", OLD, "Traceback (most recent call last):\n", ""]),
        st.lists(st.sampled_from([png(), png(8, 8), png(4000, 3000), "", "aaaa"]), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@examples(2)
@given(st.sampled_from(WITH_IMAGES), CASES, st.integers(0, 4), st.booleans(), st.booleans())
def test_only_texts_and_images_of_old_results_change(
    writer: Writer,
    turns: list[tuple[str, list[str]]],
    keep: int,
    in_lists: bool,
    compact: bool,
) -> None:
    steps = [
        s for n, (text, images) in enumerate(turns) for s in shot(f"c{n}", *images, content=text)
    ]
    told = writer.tell(User(), *steps)
    rule = policy(SLIDING, keep_last_images=keep, mask_text_parts=in_lists)
    found = rewrite(told, rule, compact=compact)
    assert told.document == put_back(found)
    for replacement in list_replacements(found.decisions):
        if replacement.image:
            assert len(spell(replacement.value)) < len(spell(replacement.image.part))
            assert replacement.saves(TokenCounter().count) > 0
    again = rewrite_request(found.body, rule, writer.wire, writer.path)
    assert found.body is again.body


@as_one_test
@pytest.mark.parametrize(
    ("picture", "placeholder"),
    [
        pytest.param(
            read_picture(png(12, 34), "image/webp", count_openai), "png 12x34", id="by its header"
        ),
        pytest.param(read_picture("a" * 40, "image/WebP", count_openai), "webp", id="by its type"),
        pytest.param(
            read_picture("a" * 40, "text/plain", count_openai), None, id="of another type"
        ),
        pytest.param(
            read_picture("a" * 40, "image/" + "x" * 99, count_openai), None, id="of an odd type"
        ),
        pytest.param(read_picture("a" * 40, 7, count_openai), None, id="of no type"),
        pytest.param(read_picture(7, "image/png", count_openai), None, id="no data"),
        pytest.param(
            read_address(f"data:image/png;base64,{png(1, 2)}", count_openai),
            "png 1x2",
            id="data URL",
        ),
        pytest.param(
            read_address("data:image/gif;x=y;base64,aaaa", count_openai),
            "gif",
            id="data URL with more",
        ),
        pytest.param(
            read_address("data:image/png,aaaa", count_openai), None, id="data URL that is no base64"
        ),
        pytest.param(
            read_address("https://example.com/a.png", count_openai), None, id="another URL"
        ),
        pytest.param(read_address(None, count_openai), None, id="no URL"),
    ],
)
def test_what_is_known_of_an_image(picture: Picture, placeholder: str | None) -> None:
    text = describe_image(picture.kind, picture.size)
    assert ("[image masked]" if placeholder is None else f"[image: {placeholder} masked]") == text
    assert IMAGE_PLACEHOLDER.fullmatch(text)


@as_one_test
@pytest.mark.parametrize(
    "text", ["", "[image]", "[image: png masked] ", "[image: a b masked]", OLD]
)
def test_other_texts_describe_no_image(text: str) -> None:
    assert not IMAGE_PLACEHOLDER.fullmatch(text)


ADDRESS = "https://example.com/screenshot-of-a-page.png"
MARK = {"cache_control": {"type": "ephemeral"}}
SOURCE = {"type": "base64", "media_type": "image/png", "data": png()}
BLOB = {"mimeType": "image/png", "data": png()}


def in_messages(part: object) -> object:
    block = {"type": "tool_result", "tool_use_id": "a", "content": [part]}
    return {"role": "user", "content": [block]}


def in_responses(part: object) -> object:
    return {"type": "function_call_output", "call_id": "a", "output": [part]}


def in_converse(part: object) -> object:
    result = {"toolUseId": "a", "content": [part]}
    return {"role": "user", "content": [{"toolResult": result}]}


def in_gemini(part: object) -> object:
    response = {"name": "shell", "response": {"output": "ok"}}
    return {"role": "user", "parts": [{"functionResponse": response}, part]}


def in_a_gemini_response(part: object) -> object:
    response = {"name": "shell", "response": {"output": "ok"}, "parts": [part]}
    return {"role": "user", "parts": [{"functionResponse": response}]}


def in_chat(part: object) -> object:
    return {"role": "tool", "tool_call_id": "a", "content": [part]}


def as_url(url: object, **others: object) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}, **others}


def shown(image_url: object, **others: object) -> dict[str, object]:
    return {"type": "input_image", "image_url": image_url, **others}


@as_one_test
@pytest.mark.parametrize(
    ("wire", "element", "expected"),
    [
        pytest.param(CHAT, in_chat(as_url(ADDRESS)), "[image masked]", id="Chat: a URL"),
        pytest.param(CHAT, in_chat(as_url("a.png")), None, id="Chat: a URL that is shorter"),
        pytest.param(CHAT, in_chat(as_url(ADDRESS, **MARK)), None, id="Chat: a cache mark"),
        pytest.param(CHAT, in_chat(as_url(None)), None, id="Chat: no URL"),
        pytest.param(
            MESSAGES,
            in_messages({"type": "image", "source": {"type": "url", "url": ADDRESS}}),
            "[image masked]",
            id="Messages: a URL",
        ),
        pytest.param(
            MESSAGES,
            in_messages({"type": "image", "source": {"type": "file", "file_id": "f" * 28}}),
            "[image masked]",
            id="Messages: a file",
        ),
        pytest.param(
            MESSAGES,
            in_messages({"type": "image", "source": SOURCE, **MARK}),
            None,
            id="Messages: a cache mark",
        ),
        pytest.param(MESSAGES, in_messages({"type": "image"}), None, id="Messages: no source"),
        pytest.param(
            MESSAGES,
            in_messages({"type": "image", "source": {**SOURCE, "data": 7}}),
            None,
            id="Messages: no data",
        ),
        pytest.param(
            MESSAGES,
            in_messages({"type": "document", "source": SOURCE}),
            None,
            id="Messages: a document",
        ),
        pytest.param(
            RESPONSES, in_responses(shown(ADDRESS)), "[image masked]", id="Responses: URL"
        ),
        pytest.param(
            RESPONSES,
            in_responses(shown(None, file_id="f" * 28, detail="high")),
            "[image masked]",
            id="Responses: a file",
        ),
        pytest.param(
            RESPONSES,
            in_responses(shown(ADDRESS, prompt_cache_breakpoint={})),
            None,
            id="Responses: a breakpoint",
        ),
        pytest.param(
            RESPONSES,
            {
                "type": "computer_call_output",
                "call_id": "a",
                "output": {"type": "computer_screenshot", "image_url": ADDRESS},
            },
            None,
            id="Responses: a computer's screenshot",
        ),
        pytest.param(
            CONVERSE,
            in_converse({"image": {"format": "jpeg", "source": {"bytes": png()}}}),
            SHOWN,
            id="Converse: bytes of another kind than it says",
        ),
        pytest.param(
            CONVERSE,
            in_converse({"image": {"source": {"s3Location": {"uri": "s3://a/screenshot"}}}}),
            "[image masked]",
            id="Converse: a place",
        ),
        pytest.param(CONVERSE, in_converse({"image": {}}), None, id="Converse: no source"),
        pytest.param(
            CONVERSE,
            in_converse({"image": {"source": {"bytes": png()}}, "cachePoint": {}}),
            None,
            id="Converse: an odd key",
        ),
        pytest.param(GEMINI, in_gemini({"inlineData": BLOB}), SHOWN, id="Gemini: a part after it"),
        pytest.param(
            GEMINI,
            in_gemini({"inline_data": {"mime_type": "image/png", "data": png()}}),
            SHOWN,
            id="Gemini: snake case",
        ),
        pytest.param(
            GEMINI,
            in_gemini({"inlineData": {**BLOB, "mimeType": "application/pdf"}}),
            None,
            id="Gemini: a document",
        ),
        pytest.param(
            GEMINI,
            in_gemini({"inlineData": BLOB, "thoughtSignature": "s"}),
            None,
            id="Gemini: a signature",
        ),
        pytest.param(
            GEMINI, in_a_gemini_response({"inlineData": BLOB}), None, id="Gemini: in a response"
        ),
    ],
)
def test_what_a_text_can_replace(wire: WireFormat, element: object, expected: str | None) -> None:
    (result,) = wire.read_element(element).results
    found = [image.placeholder for image in result.images]
    assert ([] if expected is None else [expected]) == found
    assert wire.measure_element(element).total > 0


def test_an_image_before_any_result_is_the_users() -> None:
    parts = [{"inlineData": BLOB}, {"functionResponse": {"name": "a", "response": {}}}]
    (result,) = GEMINI.read_element({"role": "user", "parts": parts}).results
    assert () == result.images


def test_an_image_with_a_lone_surrogate_is_replaced_all_the_same() -> None:
    told = browse(_CHAT_WRITER)
    body = json.dumps(told.document).replace("data:image/png;base64,", "https://a/\\ud800")
    found = rewrite_request(body.encode(), SLIDING, CHAT)
    assert 4 == found.body.decode().count("[image masked]")


def test_an_image_that_the_user_sent_before_stays() -> None:
    """The fast way through the bytes finds the user's image first, and is proven wrong."""
    image = as_url(f"data:image/png;base64,{png(mark='0')}")
    told = browse(_CHAT_WRITER)
    told = told._replace(items=[{"role": "user", "content": [image]}, *told.items])
    found = rewrite(told, compact=True)
    assert told.document == put_back(found)
    assert 1 == found.body.decode().count(png(mark="0"))


_CHAT_WRITER = WITH_IMAGES[0]
