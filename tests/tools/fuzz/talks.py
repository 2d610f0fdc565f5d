"""Conversations for the fuzzer: what is said, how a client spells it, and how it goes on.

A talk holds the bytes of its elements. So what was said once is sent again in the very same bytes,
unless a move spells it anew.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.masking.test_every_format_invariants import HEADS
from tests.support.images import png
from tests.support.made_up_format import MADE_UP
from tests.support.wire_conversations import WRITERS, Ask, Give, Model, Step, Tools, User, Writer

REAL = {writer.name: writer for writer in WRITERS if writer.wire is not MADE_UP}

_LIST = "The list stands here."
"""Stands in a request for its elements."""

_IDS = ("a", "b", "call_0", "call_0", 'é"\\', "")
_TOOLS = ("shell", "read", "read", "edit")
_ARGUMENTS: tuple[Mapping[str, object], ...] = (
    {},
    {"path": "a.py"},
    {"path": "b.py", "n": 1},
    {"n": 1, "path": "b.py"},
    {"n": True, "path": "b.py"},
    {"n": 1.0, "path": "b.py"},
    {"n": 0, "deep": [{"a": [None, False, -0.0, 1e300]}]},
    {"text": "é 😀 \ud83d"},
)
_TEXTS = (
    "A line of output.\n" * 30,
    "other output, " * 60,
    'é 😀 & < > \u2028 / \\ " \t\x7f' * 20,
    "lone \ud83d " * 40,
    "\\u0041 {[,]} null " * 30,
    '{"error": "no such file"}',
    "Traceback (most recent call last):\n" + "  x\n" * 40,
    "Error: it failed",
    "pad\n" * 600 + "exit code 1",
    "words <system-reminder>Do it.</system-reminder>",
    "output " * 50 + "\n<system-reminder>The user is here.</system-reminder>",
    "[call_0 {}]",
    "<a|shell|540>",
    "ok",
    "",
    '{"output": "one\\ntwo", "exit_code": 0, "error": null, "timeout": false}',
    '{"stdout": "' + "three " * 400 + '", "returncode": 3}',
    '[{"query": "make", "result": "", "success": false}, {"success": true}]',
    "3 files differ\n<shellId: 2 completed with exit code 1>",
)
_SUMMARIZE = "Summarize the conversation so far."
_MARK = {"cache_control": {"type": "ephemeral"}}

_STYLES: tuple[Callable[[object], str], ...] = (
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(value, indent=1),
    lambda value: json.dumps(value, separators=("\t,\r\n", " :  ")),
    lambda value: json.dumps(value).replace("content", "cont\\u0065nt").replace("ou", "\\u006Fu"),
    lambda value: json.dumps(value).replace("/", "\\/").replace("1.0", "1.00e0"),
    lambda value: json.dumps(value).replace('{"role":', '{"role": 0, "role":'),
    lambda value: json.dumps(value).replace('"content":', '"content": "shadowed", "content":'),
)
"""How clients spell a value; the last ones are odd: escapes that need not be, and keys twice."""


def spell(value: object, random: Random, *, odd: bool) -> bytes:
    """Return a value in a random spelling."""
    style = random.choice(_STYLES if odd else _STYLES[:4])
    return style(value).encode("utf-8", "surrogatepass" if random.random() < 0.001 else "replace")


@dataclass(slots=True)
class Talk:
    """A conversation as its client holds it: the bytes of its elements, and those around them."""

    writer: Writer
    random: Random
    odd: bool
    head: bytes = b""
    tail: bytes = b""
    comma: bytes = b","
    items: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return self.head + self.comma.join(self.items) + self.tail

    def begin(self) -> None:
        """Write what stands around the list, perhaps anew."""
        random, writer = self.random, self.writer
        document = writer.wrap([_LIST])
        holder = document.get("request", document)
        extra = [*HEADS[writer.wire.name].items()]
        holder |= dict(random.sample(extra, random.randrange(len(extra) + 1)))
        shuffled = random.sample([*holder.items()], len(holder))
        holder.clear()
        holder.update(shuffled)
        if "model" in document and random.random() < 0.3:
            document["model"] = random.choice(["claude-opus-5-5", "gpt-6-astra", "gpt-4o", "x"])
        text = spell(document, random, odd=False)
        self.head, _, self.tail = text.partition(json.dumps(_LIST).encode())
        self.comma = random.choice([b",", b",", b", ", b" ,\n "])

    def end_anew(self) -> None:
        """Change what stands behind the list alone."""
        self.tail = b'%b,"n":%d}' % (self.tail[:-1], self.random.randrange(99))

    def say(self, *steps: Step) -> None:
        """Add what is said."""
        for item in (item for step in steps for item in self.writer.spell(step)):
            self.items.append(spell(item, self.random, odd=self.odd))

    def go_on(self) -> None:
        """Add what an agent and its client say next."""
        random = self.random
        if random.random() < 0.15:
            self.say(User(random.choice(("Go on.", _SUMMARIZE, _SUMMARIZE, random.choice(_TEXTS)))))
            return
        thought = "Hm." if random.random() < 0.1 else ""
        if random.random() < 0.1:
            self.say(Model((), "So far.", thought))
            return
        asked = [
            Ask(random.choice((*_IDS, f"id_{random.randrange(99)}")), random.choice(_TOOLS), each)
            for each in random.choices(_ARGUMENTS, k=random.choice((1, 1, 1, 2, 3)))
        ]
        given = [self._answer(each) for each in asked if random.random() < 0.95]
        random.shuffle(given)
        said: list[Step] = [Model((*asked,), "", thought)]
        said += [Tools((*given,))] if given else []
        if random.random() < 0.02:
            said.reverse()
        self.say(*said)

    def _answer(self, asked: Ask) -> Give:
        random, writer = self.random, self.writer
        text = random.choice(_TEXTS)
        if random.random() < 0.6:
            text = f"{random.randrange(9)} {random.choice(_TEXTS[:4])}"
        content: str | tuple[str, ...] | Mapping[str, object] = text
        if writer.has_lists and random.random() < 0.2:
            content = (text, "two", random.choice(_TEXTS))
        elif random.random() < 0.05:
            content = random.choice(_ARGUMENTS)
        images = (png(800, 600),) if writer.has_images and random.random() < 0.05 else ()
        fails = writer.tells_errors and random.random() < 0.1
        return Give(asked.call_id, content, asked.tool, fails, images)

    def mark_last(self) -> None:
        """Spell the last elements anew, as clients do that move a cache mark."""
        for at in range(max(0, len(self.items) - self.random.randrange(1, 4)), len(self.items)):
            try:
                item = json.loads(self.items[at])
            except ValueError:
                return
            if isinstance(item, dict):
                item = {key: each for key, each in item.items() if key != "cache_control"}
                item |= _MARK if self.random.random() < 0.5 else {}
                self.items[at] = spell(item, self.random, odd=False)

    def branch(self) -> None:
        """Go back to an earlier place, and spell anew what stands around it."""
        del self.items[self.random.randrange(len(self.items) // 2, len(self.items) + 1) :]
        self.respell()

    def respell(self) -> None:
        """Change arguments in the last elements to what is equal, but spelled otherwise."""
        old, new = self.random.choice(_EQUAL)
        for at in range(max(0, len(self.items) - 7), len(self.items)):
            self.items[at] = self.items[at].replace(old, new)

    def edit(self) -> None:
        """Change, drop, repeat or swap an element anywhere."""
        items, random = self.items, self.random
        at, other = random.randrange(len(items)), random.randrange(len(items))
        match random.randrange(5):
            case 0:
                del items[at]
            case 1:
                items.insert(other, items[at])
            case 2:
                items[at], items[other] = items[other], items[at]
            case 3:
                items[at] = random.choice(_STRANGE)
            case _:
                items[at] = items[at].replace(b"output", b"outcome", 1)


_EQUAL = (
    (b'"n":1,', b'"n":true,'),
    (b'"n": 1,', b'"n": 1.0,'),
    (b'"n": true', b'"n": 1'),
    (b"false", b"0"),
    (b"-0.0", b"0"),
)
_STRANGE = (
    b"{}",
    b"{ }",
    b"null",
    b'"text"',
    b"[]",
    b'{"role":"user","content":NaN}',
    b'{"role":"system","content":"Be brief."}',
    b'{"role":"tool","tool_call_id":"a","content":' + b"[" * 150 + b"]" * 150 + b"}",
    b'{"role":"tool","tool_call_id":7,"content":1e999}',
    b'{"type":"item_reference","id":"x"}',
    b'{"type":"reasoning","encrypted_content":"abc"}',
    b'{"role":"user","parts":[{"functionResponse":{"name":"read","response":{"a":1}}}]}',
)
