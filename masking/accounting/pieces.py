"""The pieces of a prompt as its client wrote it: what stands before the list, then the elements."""

from collections.abc import Iterable, Iterator

from masking.accounting.counted import count_element, digest_of
from masking.accounting.parts import Share, add_element
from masking.accounting.prefix_cache import Piece
from masking.conversation import Conversation
from masking.frames import CountedHead
from masking.history import UNSTABLE_TAIL, Fold
from masking.known import Known
from masking.measures.tokens import TokenCounter, count_tools
from masking.model import make
from masking.wire.mark_places import is_marked
from masking.wire_format import WireFormat


def read_head(conversation: Conversation, counter: TokenCounter) -> CountedHead:
    """Count what stands before a request's list, unless that was done before."""
    if conversation.head.counted is None:
        wire, body = conversation.wire, conversation.body
        conversation.head.counted = CountedHead(
            digest_head(conversation),
            tools=count_tools(counter, wire.find_tools(body)),
            texts=sum(map(counter.count, wire.find_head_texts(body))),
        )
    return conversation.head.counted


def digest_head(conversation: Conversation) -> bytes:
    """Return the digest of what stands before a request's list."""
    wire, body = conversation.wire, conversation.body
    return digest_of([wire.find_tools(body), *wire.find_head_texts(body)])


class CountedElements(Fold[Known]):
    """The elements of a request so far, counted.

    pieces: a piece for each.
    contents, chars: the tokens of each tool result, and its code points.
    tokens: those of all elements.
    share: the same by part.
    """

    def __init__(self, wire: WireFormat, counter: TokenCounter, in_list: bool) -> None:
        self.pieces: list[Piece] = []
        self.contents: list[int] = []
        self.chars: list[int] = []
        self.tokens = 0
        self.share: Share = {}
        self.has_mark = False
        self._wire, self._counter = wire, counter
        self._in_list = in_list
        self._in_answer = False

    def take(self, known: Known) -> None:
        """Count the next element."""
        counted = known.counted or count_element(self._wire, known, self._counter)
        element, tokens = known.element, counted.tokens
        speaks = element.speaker == "assistant"
        begins = speaks and not (self._in_answer and self._wire.answers_in_runs)
        marked = self._in_list and counted.is_marked
        piece = (counted.digest, tokens, counted.blocks, marked, begins)
        self.pieces.append(make(Piece, piece))
        content = 0
        if element.results:
            content = sum(counted.results)
            self.contents += counted.results
            self.chars += [sum(map(len, result.texts)) for result in element.results]
        self.tokens += tokens
        add_element(self.share, element, tokens, content)
        self.has_mark |= marked
        self._in_answer = speaks


def read_elements(conversation: Conversation, counter: TokenCounter) -> CountedElements:
    """Count the elements of a request, but for what is known of them. It is the caller's own."""
    marks = conversation.marks
    found = conversation.history.fold(
        CountedElements,
        conversation.known,
        conversation.wire,
        counter,
        marks.in_list,
        unstable_tail=UNSTABLE_TAIL,
    )
    if marks.in_list and not found.has_mark and found.pieces:
        found.pieces[-1] = found.pieces[-1]._replace(is_marked=True)
    return found


def make_head_piece(conversation: Conversation, head: CountedHead) -> Piece:
    """Return the piece that stands before all others.

    It is marked, too, if the list has a mark that stands on none of its elements, as it has none.
    """
    marks = conversation.marks
    marked = marks.in_head or (marks.in_list and not conversation.items)
    return Piece(head.digest, head.tools + head.texts, is_marked=marked)


def read_pieces(conversation: Conversation, counter: TokenCounter) -> tuple[Piece, ...]:
    """Return the pieces of a request as it came; the first is what stands before its list."""
    first = make_head_piece(conversation, read_head(conversation, counter))
    return (first, *read_elements(conversation, counter).pieces)


def find_marked(conversation: Conversation) -> Iterator[int]:
    """Yield the places of the pieces of a request that end with a cache mark.

    If the list has a mark that stands on none of its elements, the last one is marked.
    """
    return _find_marked(conversation, map(is_marked, conversation.items))


def _find_marked(conversation: Conversation, are_marked: Iterable[bool]) -> Iterator[int]:
    marks = conversation.marks
    if marks.in_head:
        yield 0
    if marks.in_list:
        found = [at for at, element_is_marked in enumerate(are_marked, 1) if element_is_marked]
        yield from found or [len(conversation.items)]
