"""What a conversation costs, with masking and without.

A request's road: `read_prompt` counts it, `Ledger.enter` finds its conversation, sends both prompts
to simulated prefix caches, and bills them.
"""

from masking.accounting.cost import (
    AS_MUCH,
    NO_MARGIN,
    Basis,
    Bill,
    Cost,
    Margin,
    MovePrice,
    WorstBill,
    is_about_nothing,
    mean_price,
    read_margin,
    worst_bill,
)
from masking.accounting.ledger import (
    Entry,
    LatestRequests,
    Ledger,
    Savings,
    Sent,
    chain,
)
from masking.accounting.moves import Earned, Move, divide_savings
from masking.accounting.prefix_cache import (
    CachePoints,
    Piece,
    PrefixCache,
    SentPrompt,
    cache_points,
    count_writable,
)
from masking.accounting.prompt import (
    PARTS,
    Prompt,
    Sizes,
    digest_elements,
    digest_head,
    digest_of,
    label_reasons,
    marked_pieces,
    mask_pieces,
    measure,
    read_pieces,
    read_prompt,
    run_lengths,
)
from masking.accounting.rereads import Places, count_masked_repeats, find_repeated

__all__ = [
    "AS_MUCH",
    "NO_MARGIN",
    "PARTS",
    "Basis",
    "Bill",
    "CachePoints",
    "Cost",
    "Earned",
    "Entry",
    "LatestRequests",
    "Ledger",
    "Margin",
    "Move",
    "MovePrice",
    "Piece",
    "Places",
    "PrefixCache",
    "Prompt",
    "Savings",
    "Sent",
    "SentPrompt",
    "Sizes",
    "WorstBill",
    "cache_points",
    "chain",
    "count_masked_repeats",
    "count_writable",
    "digest_elements",
    "digest_head",
    "digest_of",
    "divide_savings",
    "find_repeated",
    "is_about_nothing",
    "label_reasons",
    "marked_pieces",
    "mask_pieces",
    "mean_price",
    "measure",
    "read_margin",
    "read_pieces",
    "read_prompt",
    "run_lengths",
    "worst_bill",
]
