"""What a placeholder looks like, and what an error: the contract, read slowly."""

import json
import re
from collections.abc import Callable, Iterator
from hashlib import blake2b

from tests.spec.readers import Given, Unclear

# The placeholder

_FIELD = re.compile(r"\{ *[a-z_]* *\}")
_NUMBERS = ("{original_chars}", "{original_tokens}")
_IMAGE = re.compile(r"\[image(?:: [A-Za-z0-9_.+-]{1,16}(?: [0-9]+x[0-9]+)?)? masked\]")

Estimate = Callable[[str], int]
"""How many tokens a text has."""


class Words:
    """A placeholder's template, and how much of a call's arguments it tells."""

    def __init__(self, template: str, arguments_chars: int, estimate: Estimate) -> None:
        self.template = template
        self._arguments_chars = arguments_chars
        self._estimate = estimate

    def write(self, given: Given, text: str) -> str:
        """Return the placeholder of a text of a result: plain substitutions."""
        values = self._find_values(given)
        values["{original_chars}"] = str(len(text))
        values["{original_tokens}"] = str(self._estimate(text))
        digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        values["{recall}"] = digest.hexdigest()
        return _FIELD.sub(lambda found: values[found[0]], self.template)

    def wrote(self, given: Given, text: str, tail: str = "") -> bool:
        """Whether a text may be a placeholder of this result, with any numbers, or an image's.

        What follows it in the same string begins with the blanks at the placeholder's end.
        """
        if _IMAGE.fullmatch(text):
            return True
        blanks = self.template[len(self.template.rstrip()) :]
        text += blanks if tail.startswith(blanks) and tail else ""
        values = {key: re.escape(value) for key, value in self._find_values(given).items()}
        spelled = (values.get(key, key) for key in self._spell(values))
        return re.fullmatch("".join(spelled), text, re.DOTALL) is not None

    def _spell(self, values: dict[str, str]) -> Iterator[str]:
        """Yield the pieces of a pattern; a number is the same at every place, and so is an id."""
        seen: set[str] = set()
        at = 0
        for found in _FIELD.finditer(self.template):
            yield re.escape(self.template[at : found.start()])
            at = found.end()
            key, name = found[0], found[0].strip("{ }")
            if key in values:
                yield key
            elif key in seen:
                yield f"(?P={name})"
            else:
                seen.add(key)
                yield f"(?P<{name}>{'0|[1-9][0-9]{0,19}' if key in _NUMBERS else '[0-9a-f]{16}'})"
        yield re.escape(self.template[at:])

    def _find_values(self, given: Given) -> dict[str, str]:
        """Return what is substituted; an id and a name are clipped, so that none grows forever."""
        return {
            "{tool_call_id}": (given.call_id or "")[:64],
            "{tool_name}": (given.tool or "inconnu")[:64],
            "{arguments}": self._spell_arguments(given.arguments)
            if "{arguments}" in self.template
            else "",
        }

    def _spell_arguments(self, arguments: object) -> str:
        """Return a call's arguments on one short line, as docs/reference.md has it."""
        most = self._arguments_chars
        if arguments is None:
            return "{}"
        if _is_deeper(arguments, _DEEP):
            raise Unclear("arguments that are deep: how much of them is shown")
        is_text = isinstance(arguments, str)
        text = str(arguments) if is_text else json.dumps(arguments, ensure_ascii=False)
        line = " ".join(text[: 4 * most].split()) + ("..." if len(text) > 4 * most else "")
        if len(line) > most:
            line = line[: most - 3] + "..." if most >= 3 else line[:most]
        return "".join(c if c.isprintable() else "\ufffd" for c in line) or "{}"


_DEEP = 19


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(each, levels - 1) for each in inner)


# Errors

_WORDS = ("traceback", "exception", "timeout", "connect_error", "connection refused")

_CODE = r"(?:exit[ _]?(?:code|status)|exited with(?: code| status)?|returncode)[^\w\n]{1,4}0*[1-9]"
_BEFORE_CODE = (
    r"\W{0,8}(?:\w{1,20} ){0,4}",
    r"<shellId: \w{1,20} completed with ",
    r"Error \(",
    r"Error executing tool [\w.-]{1,80}: Error \(",
)

_SIGNS = [
    re.compile(r"Traceback \(most recent call last\)"),
    re.compile(r"[\w.$]{0,120}(?:Error|Exception): "),
    re.compile(r"Script failed\r?$"),
    re.compile(r"\W{0,8}is_error\W{1,4}true\b", re.IGNORECASE),
    re.compile(r'\{"chunk_id":"\w*","wall_time_seconds":[\d.e-]+,"exit_code":0*[1-9]', re.I | re.A),
    *(re.compile(before + _CODE, re.IGNORECASE | re.ASCII) for before in _BEFORE_CODE),
]

_KEY_WITHOUT_A_VALUE = re.compile(
    r'"(?:traceback|exception|timeout|connect_error)"\s*:\s*'
    r'(?:null|false|""|0(?![.\w])|\[\s*\]|\{\s*\})',
    re.IGNORECASE,
)

_LONGEST_LIST = 8


def fails(text: str, words_max_chars: int) -> bool:
    """Whether a tool's output looks like an error."""
    seen = text.replace("Error: (none)", "")
    # Words count in short texts alone: source code mentions exceptions on every page.
    if len(text) <= words_max_chars:
        lowered = _KEY_WITHOUT_A_VALUE.sub("", seen).lower()
        has_word = any(word in lowered for word in _WORDS)
        if has_word or any(line.startswith("error") for line in lowered.split("\n")):
            return True
    # Signs at the start of a line count at every length, and so does what JSON says.
    if any(sign.match(line) for line in seen.split("\n") for sign in _SIGNS):
        return True
    try:
        found = json.loads(text, parse_int=float)
    except (ValueError, RecursionError):
        return False
    objects = found if isinstance(found, list) else [found]
    return len(objects) <= _LONGEST_LIST and any(map(_has_failed, objects))


def _has_failed(found: object) -> bool:
    if not isinstance(found, dict):
        return False
    codes = [found.get(name) for name in ("exit_code", "returncode")]
    return (
        bool(found.get("error"))
        or str(found.get("status")).lower() == "error"
        or found.get("success") is False
        or any(isinstance(code, float) and code != 0 for code in codes)
    )
