"""Rules: which requests have settings of their own. The first that fits a request holds.

A rule knows a request by what a record shows of it, and by headers, but by none that may hold a
credential. What is not known fits no glob but `*`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from masking.errors import ConfigError, printable
from masking.patterns import check_host, is_named, matches, normalize_host

_Settings = TypeVar("_Settings")

ANY = "*"

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
"""A header's name, in lower case (RFC 9110, 5.1)."""

_CREDENTIAL = re.compile(
    r"(^|[-_])(api-?key|key|auth(orization|entication)?|cookie2?|token|secret|password|"
    r"credentials?|signature)($|[-_])"
)
"""A word in the names of headers that hold secrets, which no configuration should."""

_MAX_LABEL = 64


class RequestFacts(NamedTuple):
    """The facts about a request that rules match; header names are in lower case."""

    host: str | None = None
    model: str | None = None
    path: str = ""
    client: str | None = None
    headers: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests a rule is for, and the label that it gives them.

    host, model: globs, compared in lower case.
    path, client: globs. The path is without its query; the client is that of the records.
    headers: names, in lower case, each with a glob of its value; all of them must fit.
    label: what the records call the requests; empty for nothing.

    Raises ConfigError for what cannot be a host, a blank glob, a label that is too long or not one
    line, and a header that may hold a credential.
    """

    host: str = ANY
    model: str = ANY
    path: str = ANY
    client: str = ANY
    headers: tuple[tuple[str, str], ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        check_host(self.host, "host")
        for name in ("model", "path", "client"):
            _check_glob(getattr(self, name), name)
        for name, glob in self.headers:
            if not _HEADER.fullmatch(name):
                raise ConfigError("expected a header's name", f"header.{printable(name)}")
            if may_hold_credential(name):
                problem = "this header may hold a credential, so no rule asks for it"
                raise ConfigError(problem, f"header.{name}")
            _check_glob(glob, f"header.{name}")
        if len(self.label) > _MAX_LABEL or printable(self.label) != self.label:
            raise ConfigError(f"expected one line of at most {_MAX_LABEL} characters", "label")

    def fits(self, facts: RequestFacts) -> bool:
        """Whether the rule is for a request."""
        return (
            (self.host == ANY or is_named(facts.host or "", (normalize_host(self.host),)))
            and _fits(facts.model and facts.model.lower(), self.model.lower())
            and _fits(facts.path, self.path)
            and _fits(facts.client, self.client)
            and all(
                name in facts.headers and matches(facts.headers[name], (glob,))
                for name, glob in self.headers
            )
        )

    def narrow(self, client: str) -> "Rule | None":
        """Return the rule for this client's requests alone; None if it is for none of them."""
        return replace(self, client=client) if _fits(client, self.client) else None

    def covers(self, other: "Rule") -> bool:
        """Whether the rule surely fits every request that the other one fits."""
        names = ("host", "model", "path", "client")
        globs = all(getattr(self, name) in (ANY, getattr(other, name)) for name in names)
        return globs and {*self.headers} <= {*other.headers}


def find_first(
    rules: Iterable[tuple[Rule, _Settings]], facts: RequestFacts, default: _Settings
) -> _Settings:
    """Return the settings of the first rule that fits a request; the default if none does."""
    return next((settings for rule, settings in rules if rule.fits(facts)), default)


def find_shadowed(rules: Sequence[Rule]) -> list[tuple[int, int]]:
    """Return the places of rules that never apply, each with that of the rule that covers it."""
    return [
        (place, earlier)
        for place, rule in enumerate(rules)
        for earlier in [next((n for n in range(place) if rules[n].covers(rule)), None)]
        if earlier is not None
    ]


def may_hold_credential(name: str) -> bool:
    """Whether a header, by its name in lower case, may hold what no rule may ask for."""
    return _CREDENTIAL.search(name) is not None


def _fits(text: str | None, glob: str) -> bool:
    return glob == ANY or (text is not None and matches(text, (glob,)))


def _check_glob(glob: str, path: str) -> None:
    if not glob.strip():
        raise ConfigError("expected a pattern, got a blank", path)
