"""What the log says, once, when a conversation no longer fits its model without masking."""

from cachetools import LRUCache

from addon.metrics.record import RequestRecord

_MAX_CONVERSATIONS = 10_000


class WindowWarnings:
    """Remembers which conversations were told of, those that were used last."""

    def __init__(self, max_conversations: int = _MAX_CONVERSATIONS) -> None:
        self._told: LRUCache[str, bool] = LRUCache(max_conversations)

    def find(self, record: RequestRecord) -> list[str]:
        """Return what to say about a request that has come to its end."""
        conversation = record.conversation_id
        if not record.outgrew or conversation is None or conversation in self._told:
            return []
        self._told[conversation] = True
        number = record.conversation
        name = "a conversation" if number is None else f"conversation {number}"
        return [
            f"{record.host}: {name} no longer fits the {record.model_window_tokens:,} tokens of "
            f"{record.model or 'its model'} without masking: switch masking off only after the "
            "agent has made a summary (/compact)"
        ]
