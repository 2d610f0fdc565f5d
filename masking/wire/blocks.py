"""What Anthropic's Messages and Bedrock's Converse share: messages that are lists of blocks.

A result is a block in what the user says. A prompt is rendered in the order tools, system,
messages, whatever the order of the keys.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from masking.model import UNKNOWN, Call, Element, Path, Speaker, ToolResult, make
from masking.wire.format import (
    CALL_FRAME,
    MESSAGE_FRAME,
    NO_NOTES,
    Charge,
    Document,
    HeadSize,
    Marks,
    Notes,
    WireFormat,
    as_list,
    follow,
    measure_charges,
    measure_tools,
    objects,
)
from masking.wire.parts import find_lifetimes, find_marked, join_marks


class Blocks(WireFormat):
    speakers: ClassVar[Mapping[object, Speaker]]
    """By role."""

    tools_path: ClassVar[Path]
    """Where the tool schemas are in a body."""

    mark: ClassVar[str]
    """The key of a cache mark."""

    # How a block is spelled.

    def list_blocks(self, content: object) -> list[Any]:
        """Return the blocks of a content, or of a system prompt."""
        return as_list(content)

    @abstractmethod
    def read_block(
        self, block: Mapping[str, Any], at: int, speaker: Speaker
    ) -> str | Call | ToolResult | None:
        """Read what is said in a block, or the call or the result in it; `at` is its place."""

    @abstractmethod
    def is_reasoning(self, block: Mapping[str, Any]) -> bool:
        """Whether a block holds reasoning that a provider may bind."""

    @abstractmethod
    def find_result(self, block: object) -> Mapping[str, object] | None:
        """Return the object in a block that holds the content of a result."""

    @abstractmethod
    def charge_block(self, block: object, result: int | None = None) -> Charge:
        """Return what of a block is tokens; `result` is the place of the result that it is in."""

    # What follows from that.

    def read_element(self, message: object) -> Element:
        if not isinstance(message, dict):
            return UNKNOWN
        role = message.get("role")
        speaker = self.speakers.get(role, "unknown") if isinstance(role, str) else "unknown"
        texts, calls, results, is_bound = [], [], [], False
        for at, block in enumerate(self.list_blocks(message.get("content"))):
            if not isinstance(block, dict):
                continue
            read = self.read_block(block, at, speaker)
            if isinstance(read, str):
                texts.append(read)
            elif isinstance(read, Call):
                calls.append(read)
            elif read is not None:
                results.append(read)
            is_bound = is_bound or self.is_reasoning(block)
        return make(Element, (speaker, tuple(texts), tuple(calls), tuple(results), is_bound))

    def read_charges(self, message: object) -> list[Charge]:
        """Read the frame of a message, then block by block.

        Texts are those of its blocks and of results, reasoning, and the names and inputs of calls.
        """
        if not isinstance(message, dict):
            return []
        charges, results, is_user = [MESSAGE_FRAME], 0, message.get("role") == "user"
        for block in self.list_blocks(message.get("content")):
            found = self.find_result(block)
            if found is None:
                charges.append(self.charge_block(block))
                continue
            place = results if is_user else None
            results += is_user
            parts = self.list_blocks(found.get("content"))
            inner = [self.charge_block(part, place) for part in parts]
            charges += (CALL_FRAME, *(inner or [Charge("", 0, place)]))
        return charges

    def read_notes(self, message: object) -> Notes:
        if not isinstance(message, dict):
            return NO_NOTES
        blocks = objects(message.get("content"))
        parts = [part for block in blocks for part in (block, *objects(block.get("content")))]
        lifetimes = (*find_lifetimes(parts, self.mark),)
        return Notes(True, lifetimes) if lifetimes else NO_NOTES

    def measure_schemas(self, tools: object) -> int:
        """Return the estimated tokens of tool schemas."""
        return measure_tools(tools)

    def measure_head(self, body: Document) -> HeadSize:
        tools, blocks = follow(body, self.tools_path), self.list_blocks(body.get("system"))
        size = self.measure_schemas(tools)
        total = size + measure_charges(map(self.charge_block, blocks))
        if marked := find_marked(blocks, self.mark):
            return HeadSize(total, size + measure_charges(map(self.charge_block, marked)))
        return HeadSize(total, self.measure_schemas(find_marked(as_list(tools), self.mark) or None))

    def find_head_texts(self, body: Document) -> Sequence[str]:
        blocks = objects(self.list_blocks(body.get("system")))
        return tuple([text for block in blocks if isinstance(text := block.get("text"), str)])

    def find_body(self, document: Document) -> Document:
        """Return the object that holds the list."""
        return document

    def find_marks(self, document: Document, notes: Sequence[Notes]) -> Marks:
        body = self.find_body(document)
        head = [*objects(follow(body, self.tools_path)), *objects(body.get("system"))]
        return join_marks(head, notes, body, self.mark)
