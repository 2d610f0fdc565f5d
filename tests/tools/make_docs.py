"""Writes `config.toml` and the lists of the pages from the code: `python -m tests.tools.make_docs`.

A page marks such a place with `<!-- list: NAME -->` and `<!-- end -->`. What stands between them is
written by this program, and so is all of `config.toml`. A test fails if one of them is not what the
code says now.
"""

import dataclasses
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import get_args

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import masking
from addon.commands.group import obsmask
from addon.config_commands import dump_toml
from addon.records.record import McpRecord, RequestRecord, describe_fields
from masking.config import ROOT as ROOT_TABLE
from masking.config import list_keys
from masking.config.settings import Tables
from masking.model import REASONS
from masking.redaction import RedactionPolicy
from masking.reduction import ReductionOptions
from masking.roads import ROADS
from masking.window import MaskPolicy
from tests.support.client_table import (
    list_clients,
    list_measured_clients,
    list_untried,
)
from tests.support.pages import find_pages
from tests.support.places import CONFIG, ROOT

_PLACE = re.compile(r"(<!-- list: ([\w -]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_SHOWN = 3
_WIDTH = 100

_HEAD = """\
The configuration of observation-masking. A change while the proxy runs takes effect within about
half a second, and the log says so. A file with a mistake in it changes nothing, and the log says
what is wrong."""

TABLES = {
    name: key.annotation
    for name, key in list_keys(Tables).items()
    if isinstance(key.annotation, type) and list_keys(key.annotation)
}
"""The tables of the configuration, by their names."""

LISTS_OF_TABLES = ("prices", "windows", "rules")

PYTHON = {"schema1": MaskPolicy, "redaction": RedactionPolicy, "reduction": ReductionOptions}
"""The policies that the Python API takes, by the table of the configuration they belong to."""


def main() -> int:
    """Write the configuration and the lists of all pages anew."""
    for page in (CONFIG, *find_pages(ROOT)):
        text = page.read_text(encoding="utf-8")
        if (new := write_config() if page == CONFIG else fill(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(page)
    return 0


def write_config() -> str:
    """Return the shipped configuration: every key of every table, with its description above it."""
    return "\n".join(_list_config_lines())


def _list_config_lines() -> Iterator[str]:
    yield from _comment(_HEAD)
    yield ""
    yield f"[{ROOT_TABLE}]"
    for name, key in list_keys(Tables).items():
        if name in TABLES:
            yield f"[{ROOT_TABLE}.{name}]"
            for inner, inner_key in list_keys(TABLES[name]).items():
                yield from _assign(inner, inner_key, is_set=(name, inner) != _LEFT_TO_CLIENTS)
        elif name in LISTS_OF_TABLES:
            yield from _comment(key.description)
            for example in key.examples or ():
                yield "#"
                yield from (f"# {line}".rstrip() for line in _list_example(name, example))
            if name != LISTS_OF_TABLES[-1]:
                yield ""
        else:
            yield from _assign(name, key)
    yield ""


_LEFT_TO_CLIENTS = ("schema1", "window_turns")
"""A setting that a copy of the file must not make the user's own: it has another default for some
clients."""


def _assign(name: str, key: FieldInfo, *, is_set: bool = True) -> Iterator[str]:
    """Yield a key with its description and its default; behind a `#` unless the file sets it."""
    yield from _comment(key.description)
    line = f"{'' if is_set else '#'}{name} = {_literal(key.default)}"
    if len(line) <= _WIDTH:
        yield line
    else:
        yield f"{name} = ["
        yield from (f"    {_literal(each)}," for each in key.default)
        yield "]"
    yield ""


def _comment(text: str | None) -> Iterator[str]:
    """Yield a text as lines of a comment. Code stays on one line, so that it can be copied."""
    assert text is not None
    kept = re.sub(r"`[^`]*`", lambda code: code[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    for line in textwrap.wrap(kept, _WIDTH - 2, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}".replace("\N{NO-BREAK SPACE}", " ")


def _list_example(name: str, example: Mapping[str, object]) -> Iterator[str]:
    """Yield a table of a list of tables; a rule's changes of other tables stand behind it."""
    changes = {key: value for key, value in example.items() if key in TABLES}
    yield f"[[{ROOT_TABLE}.{name}]]"
    yield from (f"{key} = {_literal(each)}" for key, each in example.items() if key not in changes)
    for table, values in changes.items():
        assert isinstance(values, Mapping)
        yield ""
        yield f"[{ROOT_TABLE}.{name}.{table}]"
        yield from (f"{key} = {_literal(each)}" for key, each in values.items())


def list_example(name: str) -> Iterator[str]:
    """Yield the example of a list of tables, as a block of TOML."""
    yield "```toml"
    for example in list_keys(Tables)[name].examples or ():
        yield from _list_example(name, example)
    yield "```"


def fill(text: str) -> str:
    """Return a page's text with its lists as the code has them now."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{_make(place[2])}\n{place[3]}", text)


def _make(name: str) -> str:
    kind = next(kind for kind in sorted(LISTS, key=len, reverse=True) if name.startswith(kind))
    argument = name.removeprefix(kind).strip()
    return "".join(f"{line}\n" for line in LISTS[kind](argument))


def list_settings(table: str) -> Iterator[str]:
    """Yield a table of the shipped configuration: its keys, values, and the comments on them.

    Without a name these are the keys that stand outside all tables.
    """
    yield f"| `[{'.'.join(filter(None, (ROOT_TABLE, table)))}]` | default | |"
    yield "|---|---|---|"
    outside = {name: key for name, key in list_keys(Tables).items() if name not in TABLES}
    keys = list_keys(TABLES[table]) if table else outside
    for name, key in keys.items():
        if name not in LISTS_OF_TABLES:
            yield f"| `{name}` | {_render(key.default)} | {_escape(key.description or '')} |"


def list_list_of_tables(name: str) -> Iterator[str]:
    """Yield the keys of a list of tables, and what they are if they are left out."""
    yield f"| `[[{ROOT_TABLE}.{name}]]` | left out | |"
    yield "|---|---|---|"
    (item, _) = get_args(list_keys(Tables)[name].annotation)
    for key, field in list_keys(item).items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        left_out = "" if default is None else f"{_render(default)} "
        yield f"| `{key}` | {left_out}| {_escape(field.description or '')} |"


def list_python(_: str) -> Iterator[str]:
    """Yield the settings whose default in Python is not the shipped value."""
    yield "| setting | `config.toml` | Python |"
    yield "|---|---|---|"
    for table, policy in PYTHON.items():
        defaults = {each.name: each.default for each in dataclasses.fields(policy)}
        for name, key in list_keys(TABLES[table]).items():
            if name in defaults and _render(key.default or None) != _render(defaults[name] or None):
                yield f"| `{table}.{name}` | {_render(key.default)} | {_render(defaults[name])} |"


def list_record(kind: str) -> Iterator[str]:
    """Yield the fields of a kind of record."""
    yield "| field | value | meaning |"
    yield "|---|---|---|"
    for name, type_, unit, left_out, meaning in describe_fields(RECORDS[kind]):
        value = _escape(type_) + (f", {unit}" if unit else "")
        default = f"; {left_out} if left out" if left_out else ""
        yield f"| `{name}` | {value}{default} | {_escape(meaning)} |"


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
    if options:
        yield ""
        yield "| option | |"
        yield "|---|---|"
        yield from (f"| {_spell_option(each)} | {_describe_option(each)} |" for each in options)


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
    yield "| reason | by | the result |"
    yield "|---|---|---|"
    for reason, info in REASONS.items():
        by = _STRATEGIES[info.strategy]
        yield f"| `{reason}` | {by} | {_escape(info.sentence)} |"


def list_roads(_: str) -> Iterator[str]:
    """Yield the ways to save: how each is switched on, what it gives up, and for whom it is."""
    yield "| way | switch | what you give up | open to |"
    yield "|---|---|---|---|"
    for road in ROADS.values():
        settings = ", ".join(f"`{path}={dump_toml(v)}`" for path, v in road.settings.items())
        switch = f"`{road.option}`, {settings}" if road.option else "on"
        cells = road.name, switch, road.gives_up, road.open_to
        yield f"| {' | '.join(map(_escape, cells))} |"


def list_public_names(_: str) -> Iterator[str]:
    """Yield what `from masking import ...` gives, each with the first line of its docstring."""
    yield "| name | |"
    yield "|---|---|"
    for name in masking.__all__:
        found = getattr(masking, name)
        is_alias = not (inspect.isclass(found) or inspect.isfunction(found))
        meaning = f"`{found}`" if is_alias else (inspect.getdoc(found) or "").partition("\n")[0]
        yield f"| `{name}` | {_escape(meaning)} |"


_STRATEGIES = {"schema1": "masking", "redaction": "redaction", "reduction": "reduction"}


LISTS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "reasons": list_reasons,
    "roads": list_roads,
    "settings": list_settings,
    "tables of": list_list_of_tables,
    "example of": list_example,
    "python": list_python,
    "public names": list_public_names,
    "record": list_record,
    "command": list_command,
    "clients": list_clients,
    "clients measured": list_measured_clients,
    "clients not tried": list_untried,
}


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
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key} = {_literal(each)}" for key, each in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, float):
        return f"{value:g}" if value in (0, 1) else str(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
