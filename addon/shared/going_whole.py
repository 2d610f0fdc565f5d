"""Which masked requests may go out as the client wrote them, where the reason for that is ours.

An agent compacts by the usage of what was sent. So its whole history can be more than its model
takes; and a model that binds its reasoning to what precedes it has seen the masked texts.
"""

from dataclasses import replace

from masking.conversation import Conversation
from masking.model import Decision
from masking.prices import fits_window
from masking.rewrite import Rewrite, Strategies, rewrite_request
from masking.window import lay_out


def may_go_whole(rewrite: Rewrite, window: int | None) -> bool:
    """Whether a masked request fits its model unmasked, and nothing bound follows what is masked.

    `window` is that of the model, in tokens; where it is not known, the request fits.
    """
    size = lay_out(rewrite.conversation).requests[-1].size
    return fits_window(size, window) and not _is_bound(rewrite)


def leave_whole(conversation: Conversation) -> Rewrite:
    """Return a request that goes out as the client wrote it, since it was refused masked."""
    rewrite = rewrite_request(conversation, Strategies())
    decisions = (Decision(decision.result, "refused") for decision in rewrite.decisions)
    return replace(rewrite, decisions=tuple(decisions))


def _is_bound(rewrite: Rewrite) -> bool:
    """Whether reasoning that a provider may bind stands behind a text that is changed."""
    if rewrite.binding is None:
        return False
    edits, decisions = rewrite.edits, rewrite.decisions
    changed = [*edits.dropped, *(d.result.element for d in decisions if d.replacements)]
    first = min(changed, default=len(rewrite.conversation.elements))
    return any(element.is_bound for element in rewrite.conversation.elements[first:])
