import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from masking.conversation import Request, read_conversation
from masking.errors import WireError
from masking.model import UNKNOWN, Call, Element
from masking.tokens import estimate_tokens
from masking.wire import find_format
from masking.wire.format import HeadSize, Marks
from masking.wire.gemini import GEMINI
from tests.support.marks import as_one_test

MODELS = "/v1beta/models/gemini-3-pro-preview"
VERTEX = "/v1beta1/projects/p/locations/global/publishers/google/models/gemini-2.5-pro"
IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
CODE = {"executableCode": {"code": "1"}}
SIGNATURE = "c2lnbmF0dXJl" * 30


def answer(response: object, **others: object) -> dict[str, Any]:
    return {"functionResponse": {"name": "read", "id": "a", "response": response, **others}}


def call(name: object = "read", **others: object) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {"path": "a.py"}, **others}}


def said(*parts: object, role: object = "user") -> dict[str, Any]:
    return {"role": role, "parts": [*parts]}


@as_one_test
@pytest.mark.parametrize(
    ("response", "kind", "texts", "is_error"),
    [
        pytest.param({"output": "out"}, "string", {"output": "out"}, False, id="gemini-cli, pi"),
        pytest.param({"result": "out"}, "string", {"result": "out"}, False, id="google-genai"),
        pytest.param(
            {"name": "read", "content": "out"}, "string", {"content": "out"}, False, id="AI SDK"
        ),
        pytest.param({"error": "no"}, "string", {"error": "no"}, True, id="an error"),
        pytest.param({"error": {"code": 5}}, "other", {}, True, id="an error that is an object"),
        pytest.param(
            {"output": "out", "error": None}, "string", {"output": "out"}, False, id="no error"
        ),
        pytest.param(
            {"stdout": "out", "stderr": "", "code": 0},
            "text_parts",
            {"stdout": "out", "stderr": ""},
            False,
            id="several texts beside a number",
        ),
        pytest.param({"output": ""}, "string", {"output": ""}, False, id="an empty text"),
        pytest.param({"output": ["a", {"b": "c"}]}, "other", {}, False, id="texts further down"),
        pytest.param({"name": "read"}, "other", {}, False, id="a name alone"),
        pytest.param({}, "other", {}, False, id="nothing"),
        pytest.param(None, "other", {}, False, id="null"),
        pytest.param("out", "other", {}, False, id="a text, which is no object"),
        pytest.param(["out"], "other", {}, False, id="a list"),
    ],
)
@pytest.mark.parametrize("key", ["functionResponse", "function_response"])
def test_what_a_result_is(
    key: str, response: object, kind: str, texts: dict[str, str], is_error: bool
) -> None:
    part = {key: answer(response)["functionResponse"]}
    (found,) = GEMINI.read_element(said({"text": "See:"}, part)).results
    assert (kind, tuple(texts.values())) == (found.kind, found.texts)
    assert tuple(("parts", 1, key, "response", name) for name in texts) == found.slots
    assert ("a", "read", is_error) == (found.call_id, found.tool, found.is_error)


@pytest.mark.parametrize(
    ("others", "call_id", "tool"),
    [
        pytest.param({"id": None}, "", "read", id="null"),
        pytest.param({"id": ""}, "", "read", id="an empty id"),
        pytest.param({"id": 7}, None, "read", id="a number"),
        pytest.param({"id": [], "name": None}, "", None, id="no name"),
    ],
)
def test_ids_that_are_none(
    others: dict[str, object], call_id: str | None, tool: str | None
) -> None:
    (found,) = GEMINI.read_element(said(answer({"output": "out"}, **others))).results
    (called,) = GEMINI.read_element(said(call(**others), role="model")).calls
    assert (call_id, tool) == (found.call_id, found.tool) == (called.call_id, called.tool)


def test_an_answer_has_texts_and_calls() -> None:
    content = said(
        {"text": "I think.", "thought": True},
        {"text": "I look.", "thoughtSignature": SIGNATURE},
        call() | {"thoughtSignature": SIGNATURE},
        {"function_call": {"name": "shell", "id": "b"}},
        {"executableCode": {"language": "PYTHON", "code": "print()"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "out"}},
        IMAGE,
        answer({"output": "never in an answer"}),
        {"functionCall": "no object"},
        {"new": 7},
        None,
        role="model",
    )
    calls = (Call("", "read", {"path": "a.py"}), Call("b", "shell", None))
    assert Element("assistant", ("I look.",), calls) == GEMINI.read_element(content)


@as_one_test
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (said({"text": "Go."}), Element("user", ("Go.",))),
        ({"parts": [{"text": "Go."}]}, Element("user", ("Go.",))),
        ({"parts": {"text": "Go."}}, Element("user", ("Go.",))),
        (said({"text": "Go."}, role="system"), Element("system", ("Go.",))),
        (said({"text": "Go."}, role="tool"), Element("unknown", ("Go.",))),
        (said({"text": 7}, {"text": None}, role=["user"]), Element("unknown")),
        ({"role": "model", "parts": None}, Element("assistant")),
        ({"role": None, "parts": "Go."}, Element("user")),
        ("Go.", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_who_speaks(content: object, expected: Element) -> None:
    assert expected == GEMINI.read_element(content)


def test_results_are_in_contents_of_the_role_function_too() -> None:
    found = GEMINI.read_element(said(answer({"output": "out"}), role="function"))
    assert ("tool", 1) == (found.speaker, len(found.results))


def test_a_part_may_stand_alone() -> None:
    found = GEMINI.read_element({"role": "user", "parts": answer({"output": "out"})}).results[0]
    assert (("parts", "functionResponse", "response", "output"),) == found.slots


@as_one_test
@pytest.mark.parametrize(
    ("path", "model", "stream", "purpose"),
    [
        (f"{MODELS}:generateContent", "gemini-3-pro-preview", False, "answer"),
        (f"{MODELS}:streamGenerateContent", "gemini-3-pro-preview", True, "answer"),
        (f"{MODELS}:countTokens", "gemini-3-pro-preview", False, "count"),
        (f"{MODELS}%3AstreamGenerateContent", "gemini-3-pro-preview", True, "answer"),
        (f"{VERTEX}:generateContent", "gemini-2.5-pro", False, "answer"),
        (
            "/v1/publishers/google/models/gemini-3-flash:streamGenerateContent",
            "gemini-3-flash",
            True,
            "answer",
        ),
        ("/gateway/v1beta/models/m:generateContent", "m", False, "answer"),
        ("/v1/projects/p/locations/l/endpoints/77:generateContent", "77", False, "answer"),
        ("/v1beta/tunedModels/mine:generateContent", "mine", False, "answer"),
        ("/v1internal:generateContent", "gemini-3-flash", False, "answer"),
        ("/v1internal:streamGenerateContent", "gemini-3-flash", True, "answer"),
        ("/v1internal:countTokens", "gemini-3-flash", False, "count"),
        ("", "gemini-3-flash", False, None),
        (f"{MODELS}:embedContent", "gemini-3-pro-preview", False, None),
        (f"{MODELS}:batchGenerateContent", "gemini-3-pro-preview", False, None),
        ("/v1internal:loadCodeAssist", "gemini-3-flash", False, None),
    ],
)
def test_what_a_path_says(path: str, model: str, stream: bool, purpose: str | None) -> None:
    document = {"model": "models/gemini-3-flash"}
    assert model == GEMINI.find_model(document, path)
    assert stream == GEMINI.streams(document, path)
    assert (None if purpose is None else (GEMINI, purpose)) == find_format("POST", path)


def test_a_model_that_nobody_names() -> None:
    assert None is GEMINI.find_model({"model": 7}, "/v1internal:generateContent")


WRAPPED = [
    pytest.param((), id="at the top"),
    pytest.param(("request",), id="Code Assist"),
    pytest.param(("generateContentRequest",), id="countTokens"),
    pytest.param(("generate_content_request",), id="countTokens in snake case"),
]


@pytest.mark.parametrize("keys", WRAPPED)
def test_where_the_contents_are(keys: tuple[str, ...]) -> None:
    body: dict[str, Any] = {"contents": [said({"text": "Go."})], "tools": [{}]}
    document = body
    for key in keys:
        document = {"model": "m", key: document}
    found = read_conversation(document, GEMINI)
    assert (*keys, "contents") == found.list_path
    assert body == found.body
    assert [{}] == GEMINI.find_tools(found.body)


@as_one_test
@pytest.mark.parametrize("keys", WRAPPED)
@pytest.mark.parametrize("name", ["cachedContent", "cached_content"])
def test_a_prefix_that_the_provider_holds(keys: tuple[str, ...], name: str) -> None:
    document: dict[str, Any] = {"contents": [], name: "cachedContents/7"}
    for key in keys:
        document = {key: document}
    with pytest.raises(WireError, match="the provider holds the history"):
        read_conversation(document, GEMINI)


def test_no_prefix_that_the_provider_holds() -> None:
    assert None is GEMINI.find_obstacle({"contents": [], "cachedContent": "", "request": None})


@as_one_test
@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ({"systemInstruction": said({"text": "A"}, IMAGE, {"text": "B"})}, ("A", "B")),
        ({"system_instruction": {"parts": {"text": "A"}}}, ("A",)),
        ({"systemInstruction": "A"}, ("A",)),
        ({"systemInstruction": None, "system_instruction": {"parts": [7]}}, ()),
        ({"systemInstruction": ["A"]}, ()),
        ({}, ()),
    ],
)
def test_the_system_instruction(body: dict[str, object], texts: tuple[str, ...]) -> None:
    assert texts == GEMINI.find_head_texts(body)
    assert HeadSize(sum(map(estimate_tokens, texts))) == GEMINI.measure_head(body)


def test_tools_are_measured_with_the_system_instruction() -> None:
    tools = [{"functionDeclarations": [{"name": "read"}]}]
    spelled = json.dumps(tools, separators=(",", ":"))
    assert estimate_tokens(spelled) == GEMINI.measure_head({"tools": tools}).total


OUT = "some output " * 40
SIZES: list[tuple[str, dict[str, Any], int, tuple[tuple[int, int], ...]]] = [
    ("nothing", {}, 4, ()),
    ("a text", said({"text": "hello world"}), 4 + 2, ()),
    ("a thought", said({"text": "hello world", "thought": True}, role="model"), 4 + 2, ()),
    ("a signature", said({"text": "", "thoughtSignature": SIGNATURE}, role="model"), 4, ()),
    ("an image", said(IMAGE), 4 + 1_120, ()),
    ("a file", said({"file_data": {"fileUri": "gs://a"}}), 4 + 1_120, ()),
    ("a call", said(call(), role="model"), 4 + 8 + estimate_tokens('read{"path":"a.py"}'), ()),
    ("an odd call", said(call(7), role="model"), 4 + 8 + estimate_tokens('{"path":"a.py"}'), ()),
    ("code", said(CODE), 4 + estimate_tokens('{"executableCode":{"code":"1"}}'), ()),
    (
        "a result after a text",
        said({"text": "hello world"}, answer({"output": OUT})),
        4 + 2 + 8 + estimate_tokens('read{"output":""}') + estimate_tokens(OUT),
        ((6, estimate_tokens(OUT)),),
    ),
    (
        "a result with an image",
        said(answer({"output": OUT}, parts=[IMAGE])),
        4 + 8 + estimate_tokens('read{"output":""}') + estimate_tokens(OUT) + 1_120,
        ((4, estimate_tokens(OUT)),),
    ),
    ("an odd result", said(answer(None)), 4 + 8 + estimate_tokens("readnull"), ((4, 0),)),
    (
        "a response in an answer",
        said(answer({"output": OUT}), role="model"),
        4 + 8 + estimate_tokens('read{"output":""}') + estimate_tokens(OUT),
        (),
    ),
]  # fmt: skip


@as_one_test
@pytest.mark.parametrize(
    ("content", "total", "results"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES]
)
def test_size_of_a_content(
    content: dict[str, Any], total: int, results: tuple[tuple[int, int], ...]
) -> None:
    assert (total, results) == GEMINI.measure_element(content)


@pytest.mark.parametrize("content", [None, "x", 7, []])
def test_what_is_no_content_has_no_size(content: object) -> None:
    assert (0, ()) == GEMINI.measure_element(content)
    assert ([], 0) == GEMINI.count_parts(content)


def test_texts_that_are_tokens() -> None:
    content = said(
        {"text": "hello"},
        call(),
        answer({"output": OUT, "code": 0}, parts=[IMAGE]),
        CODE,
        IMAGE,
        {"text": ""},
    )
    texts = [
        "hello",
        'read{"path":"a.py"}',
        OUT,
        'read{"output":"","code":0}',
        '{"executableCode":{"code":"1"}}',
    ]
    assert (texts, 4 + 8 + 8 + 2 * 1_120) == GEMINI.count_parts(content)


def test_how_a_summary_is_spelled() -> None:
    assert Element("user", ("Done.",)) == GEMINI.read_element(GEMINI.user_message("Done."))


def test_a_cache_sees_a_content_as_it_is() -> None:
    content = said({"text": "Go."})
    assert content is GEMINI.unmark(content)
    request = Request({"contents": [content], "model": "claude-fable-5"}, GEMINI)
    assert (Marks(), None) == (request.marks, request.binding)


KEYS = st.sampled_from(
    [
        *("role", "parts", "text", "thought", "functionCall", "functionResponse", "response"),
        *("function_response", "function_call", "name", "id", "args", "inlineData", "error"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["user", "model", "read", ""]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(KEYS, values, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_whatever_is_in_a_content_it_is_read(content: object) -> None:
    found = GEMINI.read_element(content)
    sizes = GEMINI.measure_element(content)
    assert len(found.results) == len(sizes.results)
    for result, (before, own) in zip(found.results, sizes.results, strict=True):
        assert 0 <= before + own <= sizes.total
        for text, slot in zip(result.texts, result.slots, strict=True):
            value: Any = content
            for key in slot:
                value = value[key]
            assert text == value
            assert slot[-2:] == ("response", slot[-1])
            assert slot[-1] != "name"
    GEMINI.count_parts(content)
    GEMINI.find_head_texts({"systemInstruction": content})
