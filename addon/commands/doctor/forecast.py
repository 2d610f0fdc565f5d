"""Whether an agent's old tool results will be masked as things are, and if not, what else saves."""

from collections.abc import Collection, Iterator

from addon.accounts import Learned
from addon.agents import CLAUDE_CODE, Agent
from addon.commands.doctor.report import Finding, note, ok
from masking.config import Settings
from masking.roads import OPTIONAL_ROADS
from masking.wire import find_messages_binding, find_responses_binding

_HELP = "docs/agents.md#roads"


def foresee(
    agent: Agent,
    model: str,
    origin: str,
    settings: Settings,
    learned: Collection[Learned],
) -> Iterator[Finding]:
    """Yield whether masking will happen with a model, and which other roads there are.

    model: as the agent sends it; empty if it is not known. origin: where that is said, in words.
    learned: what is known of the user's accounts.
    """
    if not settings.any_changes:  # the check of the configuration says so
        return
    if not model:
        yield ok(f"{agent.name}: old results are masked, unless the model binds its reasoning")
        return
    called = f"{model} ({origin})"
    binding = find_responses_binding(model, is_encrypted=False)
    if agent is CLAUDE_CODE:
        binding = find_messages_binding(model)
    if binding is None or (agent.drops_reasoning and binding != "drops"):
        yield ok(f"{called}: old results will be masked, as soon as that pays")
        return
    verdicts = {each.verdict for each in learned if each.account.model == model}
    if binding == "may_refuse" and agent.recovers and "takes" in verdicts:
        yield ok(f"{called}: old results will be masked, because your account accepts that")
        return
    roads = [road for road in OPTIONAL_ROADS if binding in road.bindings]
    if taken := [road.option for road in roads if road.is_taken(settings)]:
        yield ok(f"{called} binds its reasoning; {', '.join(taken)} is on, and saves all the same")
        return
    if binding == "may_refuse" and agent.recovers and not verdicts:
        says = (
            "whether old results are masked depends on your account, which one request will test. "
            "If it was created since August 31, 2026, they are not"
        )
    elif binding == "drops":
        says = "nothing will be masked, because the model would lose its reasoning"
    else:
        says = "nothing will be masked, because the provider would refuse the request"
    lost = [road.gives_up.partition(". ")[0].rstrip(".") for road in roads]
    ways = [
        f"{road.option}, {what[0].lower()}{what[1:]}"
        for road, what in zip(roads, lost, strict=True)
    ]
    yield note(
        f"{called}: {says}. Other ways to save, and what each gives up ({_HELP}): "
        f"{'; '.join(ways)}",
        f"obsmask run {roads[0].option} -- COMMAND",
    )
