"""Settings for the fuzzer: any that a configuration can give, many of them often."""

from dataclasses import replace
from random import Random

from masking.prices import PriceStep
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.rewrite import Strategies
from tests.support.priced import PricedPolicy

_TEMPLATES = (
    "<{tool_call_id}|{tool_name}|{original_chars}>",
    "[{tool_call_id} {arguments}]",
    "é {original_tokens} {arguments}",
    "[masked {tool_name}, {recall}]",
    "x",
    "[{tool_name}] ",
    "A placeholder that is longer than most of the short results are. " * 3 + "It ends.",
)


def choose_strategies(random: Random) -> Strategies:
    """Return the settings of a request."""
    redaction = RedactionPolicy(
        random.random() < 0.3,
        random.choice((("read",), ("shell", "edit"))),
        random.choice(_TEMPLATES[:3]),
    )
    reduction = ReductionOptions(
        enabled=random.random() < 0.1,
        max_input_chars=random.choice((500, 3_000)),
        preserve_recent_raw_turns=random.choice((0, 2, 4)),
        observation_masking=random.random() < 0.7,
    )
    return Strategies(
        schema1=choose_policy(random),
        redaction=redaction if random.random() < 0.3 else RedactionPolicy(),
        reduction=reduction,
    )


def choose_prices(policy: PricedPolicy, random: Random) -> PricedPolicy:
    """Return a policy as it is, or one that masks much at prices at which much can be lost."""
    if random.random() < 0.3:
        return policy
    read, write = random.choice(((0.1, 1.25), (0.1, 1.0), (0.25, 1.0), (0.02, 1.0)))
    return replace(
        policy,
        enabled=True,
        window_turns=random.choice((1, 2, 3, 5)),
        keep_errors=False,
        min_chars=0,
        cache_read_ratio=read,
        cache_write_ratio=write,
        max_loss=random.choice((0.0, 0.0, 0.02, 0.1)),
    )


def choose_policy(random: Random) -> PricedPolicy:
    """Return a window's settings; half of them slide."""
    read, write = random.choice(((1.0, 1.0), (1.0, 1.0), (0.1, 1.25), (0.5, 1.0), (0.1, 1.0)))
    steps = (PriceStep(300, 2.0),) if random.random() < 0.1 else ()
    return PricedPolicy(
        random.random() < 0.95,
        random.choice((1, 1, 2, 3, 8)),
        random.random() < 0.7,
        random.choice((None, None, 0, 1, 2)),
        random.choice(_TEMPLATES),
        skip_if_not_shorter=random.random() < 0.6,
        mask_text_parts=random.random() < 0.7,
        min_chars=random.choice((0, 0, 0, 40, 400)),
        error_words_max_chars=random.choice((2_000, 2_000, 0, 100_000)),
        cache_read_ratio=read,
        cache_write_ratio=write,
        max_loss=random.choice((0.1, 0.1, 0.0, 1.0, 100.0)),
        keep_latest_turns=random.choice((0, 0, 3, 9)),
        price_steps=steps,
        shortest_prefix=random.choice((0, 0, 0, 1_024)),
        reads_at=random.choice(("any prefix", "marks", "request ends")),
        model_window=random.choice((None, None, 500, 200_000)),
        mask_images=random.random() < 0.5,
        keep_last_images=random.choice((0, 1, 3)),
        bound_reasoning=random.choice(("keep", "drop")),
        keep_tools=random.choice(((), (), ("re*",))),
        mask_tools=random.choice(((), (), (), ("read",))),
        keep_arguments=random.choice(((), (), ("a.*",))),
        keep_rereads=random.random() < 0.3,
        placeholder_arguments_chars=random.choice((0, 20, 120)),
    )
