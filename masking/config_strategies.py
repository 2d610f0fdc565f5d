"""The tables of the strategies in a configuration file: every key, and its value if left out.

These are the shipped values. The defaults of `MaskPolicy` and `RedactionPolicy` are the Python
API's.
"""

from dataclasses import replace
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from masking.config_types import CachePrices, Prices
from masking.measures.price_settings import PriceSettings
from masking.redaction import RedactionPolicy
from masking.strategies.policy import BoundReasoning, MaskPolicy
from masking.window.placeholder import DEFAULT_ARGUMENTS_CHARS

_PLACEHOLDER = "[{tool_name}: {original_chars} chars masked]"


class Table(BaseModel):
    """Unknown keys and wrong types are mistakes: the string "false" is not a boolean."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Schema1Table(Table):
    """`MaskPolicy`, where its prices come from, and what follows a 400.

    The descriptions are what a user reads.
    """

    enabled: bool = Field(default=True, description="Mask old tool results.")
    window_turns: int = Field(
        default=8, description="Keep the results of the last N tool turns; 0 masks nothing."
    )
    keep_errors: bool = Field(default=True, description="Keep results that look like an error.")
    error_words_max_chars: int = Field(
        default=2_000, description="In results of up to N characters, a single word makes an error."
    )
    keep_last_k_per_tool: int = Field(
        default=0, description="Keep the last K results of each tool; 0 is off."
    )
    keep_tools: tuple[str, ...] = Field(
        default=(), description="Keep the results of these tools, as read_*, however old."
    )
    mask_tools: tuple[str, ...] = Field(
        default=(), description="Mask the results of these tools alone; none: of all."
    )
    keep_arguments: tuple[str, ...] = Field(
        default=(),
        description="Keep the results of calls with such an argument, as */PLAN.md, however old.",
    )
    keep_latest_turns: int = Field(
        default=0, description="Keep the latest result of each target for N turns; 0 is off."
    )
    target_arguments: tuple[str, ...] = Field(
        default=("file_path", "path", "filename", "filePath"),
        description="The arguments that name a call's target; the first one present counts.",
    )
    keep_rereads: bool = Field(
        default=False,
        description="Keep what was asked for again after the same call's result left the window.",
    )
    placeholder_template: str = Field(
        default=_PLACEHOLDER, description="The text that takes a result's place."
    )
    placeholder_arguments_chars: int = Field(
        default=DEFAULT_ARGUMENTS_CHARS,
        description="`{arguments}` in it are shortened to N characters.",
    )
    skip_if_not_shorter: bool = Field(
        default=True, description="Leave a result alone where its placeholder is not shorter."
    )
    mask_text_parts: bool = Field(
        default=True, description="Also mask the texts of results that are lists of parts."
    )
    mask_images: bool = Field(
        default=False, description="Also mask the images of old results, such as screenshots."
    )
    keep_last_images: int = Field(
        default=3, description="Keep the results that hold the last K images; 0 is off."
    )
    bound_reasoning: BoundReasoning = Field(
        default="keep",
        description="`keep` what later reasoning is bound to, or let the provider `drop` that.",
    )
    min_chars: int = Field(
        default=0, description="Leave results alone that are shorter than N characters."
    )
    resend_on_400: bool = False
    cache_pricing: CachePrices = "auto"
    assumed_prices: Prices = PriceSettings().assumed
    max_loss: float = Field(
        default=0.1,
        description="At no request may the bill exceed 1 + this times that of sending everything.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_policy()  # raises what is wrong with it
        return self

    def to_policy(self) -> MaskPolicy:
        """Return the policy, with the prices that the table gives. Raises ConfigError."""
        values = {name: value for name, value in self if name in MaskPolicy.__dataclass_fields__}
        policy = MaskPolicy(**values)
        if isinstance(self.cache_pricing, str):
            return policy
        read, write = self.cache_pricing
        return replace(policy, cache_read_ratio=read, cache_write_ratio=write)


class RedactionTable(Table):
    """`RedactionPolicy`, with the placeholder of schema1's table."""

    enabled: bool = False
    tool_names: tuple[str, ...] = ()
    placeholder_template: str = _PLACEHOLDER

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.to_policy()
        return self

    def to_policy(self) -> RedactionPolicy:
        """Return the policy. Raises ConfigError."""
        return RedactionPolicy(self.enabled, self.tool_names, self.placeholder_template)
