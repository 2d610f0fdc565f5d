"""Writes the lists of the pages from the code: `python -m tests.make_docs`.

A page marks such a place with `<!-- list: NAME -->` and `<!-- end -->`. What stands between them is
written by this program, and a test fails if it is not what the code says now.
"""

import dataclasses
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping

import click
from pydantic import BaseModel

import masking
from addon.commands.main import obsmask
from addon.commands.options import POLICY_KEYS
from addon.metrics.mcp_record import McpRecord
from addon.metrics.record import RequestRecord
from addon.metrics.record_fields import describe_fields
from masking.reasons import REASONS
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.strategies.policy import MaskPolicy
from tests.client_table import list_clients, list_readme_clients, list_untried
from tests.pages import find_pages
from tests.places import CONFIG, ROOT

_PLACE = re.compile(r"(<!-- list: ([\w -]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_TABLE = re.compile(r"^\[observation_masking\.(\w+)\]$", re.MULTILINE)
_KEY = re.compile(r"((?:^# .*\n)+)^(\w+) = ", re.MULTILINE)
_SHOWN = 3

PYTHON = {"schema1": MaskPolicy, "redaction": RedactionPolicy, "reduction": ReductionOptions}
"""The policies that the Python API takes, by the table of the configuration they belong to."""


def main() -> int:
    """Write the lists of all pages anew."""
    for page in find_pages(ROOT):
        text = page.read_text(encoding="utf-8")
        if (new := fill(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(page)
    return 0


def fill(text: str) -> str:
    """Return a page's text with its lists as the code has them now."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{_make(place[2])}\n{place[3]}", text)


def _make(name: str) -> str:
    kind, _, argument = (name, "", "") if name in LISTS else name.partition(" ")
    return "".join(f"{line}\n" for line in LISTS[kind](argument))


def list_settings(table: str) -> Iterator[str]:
    """Yield a table of the shipped configuration: its keys, values, and the comments on them.

    Without a name these are the keys that stand outside all tables.
    """
    yield f"| `[{'.'.join(filter(None, ('observation_masking', table)))}]` | shipped | |"
    yield "|---|---|---|"
    found = shipped()[table] if table else _find_outside_tables()
    for key, value in found.items():
        yield f"| `{key}` | {_render(value)} | {_escape(comments(table)[key])} |"


def list_python(_: str) -> Iterator[str]:
    """Yield the settings whose default in Python is not the shipped value."""
    yield "| setting | `config.toml` | Python |"
    yield "|---|---|---|"
    for table, policy in PYTHON.items():
        defaults = {each.name: each.default for each in dataclasses.fields(policy)}
        for key, value in shipped()[table].items():
            if key in defaults and _render(value or None) != _render(defaults[key] or None):
                yield f"| `{table}.{key}` | {_render(value)} | {_render(defaults[key])} |"


def list_record(kind: str) -> Iterator[str]:
    """Yield the fields of a kind of record."""
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    for name, value, unit, meaning in describe_fields(RECORDS[kind]):
        yield f"| `{name}` | {_escape(value)}{f', {unit}' if unit else ''} | {_escape(meaning)} |"


RECORDS: Mapping[str, type[BaseModel]] = {"chat": RequestRecord, "mcp": McpRecord}


def list_command(name: str) -> Iterator[str]:
    """Yield a command of `obsmask`: how it is called, what it does, its options."""
    command: click.Command = obsmask
    own = click.Context(command, info_name="obsmask")
    for part in name.split():
        assert isinstance(command, click.Group)
        found = command.get_command(own, part)
        assert found is not None
        command, own = found, click.Context(found, info_name=part, parent=own)
    yield f"`{' '.join(('obsmask', name, *command.collect_usage_pieces(own)))}`"
    yield ""
    yield from inspect.cleandoc(command.help or "").splitlines()
    options = [each for each in command.params if isinstance(each, click.Option)]
    if shown := [each for each in options if each.name not in POLICY_KEYS]:
        yield ""
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| {_spell_option(each)} | {_describe_option(each)} |" for each in shown)
        if len(shown) < len(options):
            yield "| `--window-turns N` and all keys of `schema1` | Override the configuration. |"


def _spell_option(option: click.Option) -> str:
    name = " / ".join((*option.opts, *option.secondary_opts))
    if option.is_flag:
        return f"`{name}`"
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return f"`{name} {option.metavar or _escape('|'.join(choices))}`"


def _describe_option(option: click.Option) -> str:
    has_default = isinstance(option.default, (str, int)) and not option.is_flag
    default = f" Default: `{option.default}`." if has_default and option.default else ""
    return f"{_escape(option.help or '')}{default}"


def list_reasons(_: str) -> Iterator[str]:
    """Yield the reasons by which a tool result is changed or kept."""
    yield "| reason | letter | by | the result |"
    yield "|---|---|---|---|"
    for reason, info in REASONS.items():
        by = _STRATEGIES[info.strategy]
        yield f"| `{reason}` | `{info.letter}` | {by} | {_escape(info.sentence)} |"


def list_public_names(_: str) -> Iterator[str]:
    """Yield what `from masking import ...` gives, each with the first line of its docstring."""
    yield "| name | |"
    yield "|---|---|"
    for name in masking.__all__:
        found = getattr(masking, name)
        is_alias = not (inspect.isclass(found) or inspect.isfunction(found))
        meaning = f"`{found}`" if is_alias else (inspect.getdoc(found) or "").partition("\n")[0]
        yield f"| `{name}` | {_escape(meaning)} |"


_STRATEGIES = {"schema1": "window", "redaction": "redaction", "reduction": "reduction"}


LISTS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "reasons": list_reasons,
    "settings": list_settings,
    "python": list_python,
    "public names": list_public_names,
    "record": list_record,
    "command": list_command,
    "clients": list_clients,
    "clients of the readme": list_readme_clients,
    "clients not tried": list_untried,
}


def _find_outside_tables() -> Mapping[str, object]:
    return {key: value for key, value in shipped().items() if not isinstance(value, Mapping)}


def shipped() -> Mapping[str, Mapping[str, object]]:
    """Return the shipped configuration's tables."""
    tables: Mapping[str, Mapping[str, object]] = tomllib.loads(CONFIG.read_text(encoding="utf-8"))[
        "observation_masking"
    ]
    return tables


def comments(table: str) -> Mapping[str, str]:
    """Return the comments of the shipped configuration, by the key of a table."""
    outside, *parts = _TABLE.split(CONFIG.read_text(encoding="utf-8"))
    text = {"": outside, **dict(zip(parts[::2], parts[1::2], strict=True))}[table]
    return {key: " ".join(lines.replace("# ", "").split()) for lines, key in _KEY.findall(text)}


def _render(value: object) -> str:
    if isinstance(value, (list, tuple)) and len(value) > _SHOWN + 1:
        names = ", ".join(_literal(each) for each in value[:_SHOWN])
        return f"`[{names}, ...]` ({len(value)} names)"
    return f"`{_escape(_literal(value))}`"


def _literal(value: object) -> str:
    """Return a value as TOML spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_literal, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
