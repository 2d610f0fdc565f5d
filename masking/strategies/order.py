"""All that may be done to a request: three strategies with a switch each, in a fixed order."""

from dataclasses import dataclass, field

from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.strategies.policy import MaskPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """In this order: redaction, Schéma 1, reduction. Only the last removes messages."""

    redaction: RedactionPolicy = field(default_factory=RedactionPolicy)
    schema1: MaskPolicy = field(default_factory=MaskPolicy)
    reduction: ReductionOptions = field(default_factory=ReductionOptions)

    @property
    def change(self) -> bool:
        """Whether any of them can change a request at all."""
        return self.redaction.redacts or self.schema1.masks or self.reduction.reduces
