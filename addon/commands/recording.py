"""`obsmask record`: real agents, recorded by what lies in the checkout and in no wheel."""

from pathlib import Path


def record_agent(agent: str, out: Path) -> int:
    """Record an agent against the scripted provider; returns how many requests it made.

    Raises ValueError for an unknown agent, and RuntimeError without a checkout, and where a
    recording cannot be made.
    """
    try:
        from addon.recordings.studio import clients, mcp_recorder, recorder
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("addon.recordings.studio"):
            raise
        raise RuntimeError(
            "record wants a checkout of the repository: an installed package has neither the "
            "clients nor the projects that they work on"
        ) from None
    if agent == clients.MCP_FILES:
        return mcp_recorder.record_mcp(out)
    return recorder.record(agent, out)
