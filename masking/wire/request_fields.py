"""Fields of a request that more than one format has, spelled alike."""

from collections.abc import Mapping


def find_model(document: Mapping[str, object], _path: str) -> str | None:
    """Return the model that a request names."""
    model = document.get("model")
    return model if isinstance(model, str) else None


def asks_for_stream(document: Mapping[str, object], _path: str) -> bool:
    """Whether a request asks for its answer as a stream."""
    return document.get("stream") is True
