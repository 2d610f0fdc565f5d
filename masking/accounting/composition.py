"""What a prompt is composed of as it leaves: its tokens by part.

The parts are shares of the pieces that were counted already, so no text is counted for them.
"""

from collections.abc import Mapping

from masking.accounting.parts import PARTS, Share, add_element, add_share
from masking.accounting.pieces import CountedElements
from masking.accounting.prefix_cache import Piece
from masking.accounting.replaced import Replaced
from masking.frames import CountedHead
from masking.rewrite import Rewrite


def compose(
    rewrite: Rewrite,
    head: CountedHead,
    counted: CountedElements,
    replaced: Replaced,
    inserted: Piece | None,
) -> Mapping[str, int]:
    """Return the tokens of each part of a prompt; a part without any is left out.

    `inserted` is a summary of what was dropped, which the user says.
    """
    share: Share = {"system": head.texts, "tools": head.tools}
    add_share(share, counted.share)
    add_share(share, replaced.share)
    known = rewrite.conversation.known
    for at in rewrite.edits.dropped:
        content = sum(each.results) if (each := known[at].counted) else 0
        add_element(share, known[at].element, counted.pieces[at].tokens, content, times=-1)
    if inserted is not None:
        add_share(share, {"user": inserted.tokens})
    return {part: tokens for part in PARTS if (tokens := share.get(part))}
