"""What a conversation costs, with masking and without.

A request's road: `read_prompt` counts it, `Ledger.enter` finds its conversation, sends both prompts
to simulated prefix caches, and makes out its `Bill`.
"""

from masking.accounting.bill import (
    NO_BILL,
    NO_MONEY,
    Bill,
    Margin,
    Money,
    TokenKinds,
    is_about_nothing,
    read_margin,
)
from masking.accounting.cost import (
    DEFAULT_SPREAD,
    Basis,
    MovePrice,
)
from masking.accounting.ledger import (
    Entry,
    LatestRequests,
    Ledger,
    Sent,
    hash_prefixes,
)
from masking.accounting.moves import Move, divide_savings
from masking.accounting.prompt import (
    PARTS,
    Prompt,
    Sizes,
    digest_elements,
    digest_of,
    measure,
    read_pieces,
    read_prompt,
    run_lengths,
)
from masking.accounting.rereads import (
    Places,
    count_quotes,
    count_repeats,
    find_repeated,
)

__all__ = [
    "DEFAULT_SPREAD",
    "NO_BILL",
    "NO_MONEY",
    "PARTS",
    "Basis",
    "Bill",
    "Entry",
    "LatestRequests",
    "Ledger",
    "Margin",
    "Money",
    "Move",
    "MovePrice",
    "Places",
    "Prompt",
    "Sent",
    "Sizes",
    "TokenKinds",
    "count_quotes",
    "count_repeats",
    "digest_elements",
    "digest_of",
    "divide_savings",
    "find_repeated",
    "hash_prefixes",
    "is_about_nothing",
    "measure",
    "read_margin",
    "read_pieces",
    "read_prompt",
    "run_lengths",
]
