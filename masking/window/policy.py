"""What a user sets about the window: one frozen policy, every default in one place."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Literal

from masking.errors import ConfigError
from masking.patterns import check_globs
from masking.window.placeholder import (
    DEFAULT_ARGUMENTS_CHARS,
    MAX_ARGUMENTS_CHARS,
    Rendering,
    Template,
    parse_template,
)

DEFAULT_TEMPLATE = (
    "[Observation masquée: résultat d’outil ancien "  # noqa: RUF001 - the template's own spelling
    "(tool_call_id={tool_call_id}, outil={tool_name}, chars={original_chars})]"
)

BoundReasoning = Literal["keep", "try", "drop"]

_NOT_NEGATIVE = ("min_chars", "error_words_max_chars", "max_loss")
_GLOBS = ("keep_tools", "mask_tools", "keep_arguments")

CERTAIN = 0.95
"""Part of the promise that estimates may spend. Of 158 sessions with texts of every kind the worst
request then stands at 1.105 where 1.1 is promised (`python -m tests.tools.benchmarks.promise`)."""


@dataclass(frozen=True)
class MaskPolicy:
    """Settings for masking old results; the first five are those of the design document.

    What host and model charge is no setting: see `BoundaryPrices`.

    enabled: off, nothing is ever masked.
    window_turns: how many of the last tool turns keep their results; 0 or less is off.
    keep_errors: keep results that look like an error.
    keep_last_k_per_tool: keep the last K results of each tool; None, 0 or less is off.
    placeholder_template: fields {tool_call_id} and {tool_name}, at most 64 code points of each,
        {original_chars} (code points), {original_tokens} (estimated), {arguments}, and {recall}, a
        digest of the text that is replaced.
    skip_if_not_shorter: leave a text alone unless its placeholder is shorter, both in code points
        and in estimated tokens. If moving the boundary has a price, that is always so.
    mask_text_parts: also mask a content that is a list of text parts alone.
    min_chars: leave a result alone that is shorter than this, in code points; 0 is off.
    error_words_max_chars: up to this length a single word makes an error; at any length, a sign at
        the start of a line and what JSON says do (see `masking.window.signs`).
    max_loss: at no request of any conversation may the bill, in tokens, have exceeded
        `1 + max_loss` times that of sending everything (see `boundary.py`). Because sizes are
        estimates, this is kept within a percentage point (see `estimated_loss`).
    keep_latest_turns: keep the latest result of each target (same tool, same path-like argument)
        this many turns after its call; older ones of the target follow the window; 0 is off.
    target_arguments: the names of such arguments; the first that a call has is its target.
    mask_images: also mask the images of old results, each with a text that says what it was.
    keep_last_images: keep the results that hold the last K images, however old; 0 or less is off.
    bound_reasoning: "keep": mask nothing that reasoning of the model is bound to; "try": do so on
        accounts whose provider takes the request all the same; "drop": also where the provider
        then drops the reasoning, by itself or as asked. Never where it refuses the request.
    keep_tools: keep the results of these tools, however old (globs; see `masking.patterns`).
    mask_tools: unless empty, mask the results of these tools alone (globs). A tool whose name is
        unknown is named by neither.
    keep_arguments: keep the results of calls that have an argument which is a text and matches one
        of these globs, however old.
    keep_rereads: keep the result of a call that repeats an earlier one whose result had left the
        window by then, however old; the earlier one stays masked.
    placeholder_arguments_chars: the call's arguments are shortened to this length, in code points.

    Raises ConfigError (a ValueError) for a template that is blank or has an unknown field, for a
    number that may not be negative, and for a blank glob.
    """

    enabled: bool = False
    window_turns: int = 8
    keep_errors: bool = True
    keep_last_k_per_tool: int | None = None
    placeholder_template: str = DEFAULT_TEMPLATE
    _: KW_ONLY
    skip_if_not_shorter: bool = False
    mask_text_parts: bool = False
    min_chars: int = 0
    error_words_max_chars: int = 2_000
    max_loss: float = 0.10
    keep_latest_turns: int = 0
    target_arguments: tuple[str, ...] = ("file_path", "path", "filename", "filePath")
    bound_reasoning: BoundReasoning = "keep"
    mask_images: bool = False
    keep_last_images: int = 3
    keep_tools: tuple[str, ...] = ()
    mask_tools: tuple[str, ...] = ()
    keep_arguments: tuple[str, ...] = ()
    placeholder_arguments_chars: int = DEFAULT_ARGUMENTS_CHARS
    keep_rereads: bool = False

    def __post_init__(self) -> None:
        parse_template(self.placeholder_template)
        if not isinstance(self.window_turns, int) or isinstance(self.window_turns, bool):
            raise ConfigError("expected a whole number", "window_turns")
        if not 0 <= self.placeholder_arguments_chars <= MAX_ARGUMENTS_CHARS:
            problem = f"must be from 0 to {MAX_ARGUMENTS_CHARS}"
            raise ConfigError(problem, "placeholder_arguments_chars")
        for name in _NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:  # a NaN is no such number either
                raise ConfigError("must be a number from 0 up", name)
        for name in _GLOBS:
            check_globs(getattr(self, name), name)

    @cached_property
    def masks(self) -> bool:
        """Whether this policy can mask anything at all."""
        return self.enabled and self.window_turns > 0

    @cached_property
    def pins(self) -> bool:
        """Whether it keeps results because of the others: the last of a tool, the latest."""
        last_k = self.keep_last_k_per_tool or 0
        return last_k > 0 or self.kept_images > 0 or self.keep_latest_turns > 0

    @cached_property
    def wanted_arguments(self) -> tuple[str, ...]:
        """The arguments that tell a call's target, where that matters."""
        return self.target_arguments if self.masks and self.keep_latest_turns > 0 else ()

    @cached_property
    def kept_images(self) -> int:
        """How many of the last images stay because they are the last."""
        return max(0, self.keep_last_images) if self.mask_images else 0

    @cached_property
    def template(self) -> Template:
        """The template of the placeholders, parsed."""
        return parse_template(self.placeholder_template, self.placeholder_arguments_chars)

    @cached_property
    def estimated_loss(self) -> float:
        """How much may be lost in estimated tokens, so that `max_loss` holds in real ones."""
        return CERTAIN * self.max_loss

    @cached_property
    def shrinking_rendering(self) -> Rendering:
        """How this policy writes placeholders if moving the boundary has a price.

        What costs more then has no place in the promise.
        """
        return self.rendering._replace(must_shrink=True)

    @cached_property
    def rendering(self) -> Rendering:
        """How this policy writes placeholders in a window that slides."""
        return Rendering(
            self.placeholder_template,
            self.skip_if_not_shorter,
            self.mask_text_parts,
            self.mask_images,
            self.placeholder_arguments_chars,
            max(0, self.min_chars),
        )
