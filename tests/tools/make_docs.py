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
from typing import Any, NamedTuple, get_args

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import masking
from addon.commands.group import obsmask
from addon.config_commands import dump_toml
from addon.records.record import McpRecord, RequestRecord, Unit
from masking.config import COMMON, find_key, list_keys
from masking.config import ROOT as ROOT_TABLE
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
_PAGE_WIDTH = 120
_ROOM = 300
"""Characters of a comment in `config.toml`, in whole sentences."""

_HEAD = """\
The settings of observation-masking that people change. There are more, which can stand here, too:
`obsmask config --all` explains each. A change while the proxy runs takes effect within about half a
second, and the log says so. A file with a mistake in it changes nothing, and the log says what is
wrong."""

TABLES = {
    name: key.annotation
    for name, key in list_keys(Tables).items()
    if isinstance(key.annotation, type) and list_keys(key.annotation)
}
"""The tables of the configuration, by their names."""

COMMON_KEYS = {name: find_key(name) for name in COMMON}
"""The settings that people set, by `table.key`."""

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
    """Return the shipped configuration: what people set, each with its description above it."""
    return "\n".join(_list_config_lines())


def _list_config_lines() -> Iterator[str]:
    yield from _comment(_HEAD)
    yield ""
    last = ""
    for name, key in COMMON_KEYS.items():
        *outer, inner = name.split(".")
        header = f"[{'.'.join((ROOT_TABLE, *outer))}]"
        if name in LISTS_OF_TABLES:
            yield from _comment(key.description)
            for example in key.examples or ():
                yield "#"
                yield from (f"# {line}".rstrip() for line in _list_example(name, example))
            continue
        if header != last:
            yield header
        yield from _assign(inner, key, is_set=name != _LEFT_TO_CLIENTS)
        last = header
    yield ""


_LEFT_TO_CLIENTS = "schema1.window_turns"
"""A setting that a copy of the file must not make the user's own: it has another default for some
clients."""


def _assign(name: str, key: FieldInfo, *, is_set: bool = True) -> Iterator[str]:
    """Yield a key with its description and its default; behind a `#` unless the file sets it."""
    yield from _comment(_shorten(key.description or ""))
    line = f"{'' if is_set else '#'}{name} = {_literal(key.default)}"
    if len(line) <= _WIDTH:
        yield line
    else:
        yield f"{name} = ["
        yield from (f"    {_literal(each)}," for each in key.default)
        yield "]"
    yield ""


def _shorten(text: str) -> str:
    """Return the sentences of a description that a file has room for; the first in any case."""
    first, *others = re.split(r"(?<=\.) (?=[A-Z`(])", text)
    for sentence in others:
        if len(first) + len(sentence) >= _ROOM:
            break
        first += f" {sentence}"
    return first


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


def fill(text: str) -> str:
    """Return a page's text with its lists as the code has them now."""
    return _PLACE.sub(lambda place: f"{place[1]}\n{_make(place[2])}\n{place[3]}", text)


def _make(name: str) -> str:
    kind = next(kind for kind in sorted(LISTS, key=len, reverse=True) if name.startswith(kind))
    argument = name.removeprefix(kind).strip()
    return "".join(f"{line}\n" for line in LISTS[kind](argument)).lstrip()


def list_common(_: str) -> Iterator[str]:
    """Yield the settings that people set, each as `obsmask config set` takes it."""
    for path, key in COMMON_KEYS.items():
        yield _list_setting(path, key)


def _list_setting(path: str, key: FieldInfo) -> str:
    value, _, more = _render(key.default).strip("`").partition("`")
    return f"- `{path}={value}`{more}: {key.description}"


def list_settings(_: str) -> Iterator[str]:
    """Yield all other settings, by their tables, each as `obsmask config set` takes it."""
    keys = {table: list_keys(TABLES[table]) for table in TABLES}
    outside = {name: key for name, key in list_keys(Tables).items() if name not in TABLES}
    for table, inner in {"": outside, **keys}.items():
        if table:
            yield from ("", f"### {table}", "")
        for name, key in inner.items():
            path = f"{table}.{name}" if table else name
            if path not in (*COMMON, *LISTS_OF_TABLES):
                yield _list_setting(path, key)


def list_lists_of_tables(_: str) -> Iterator[str]:
    """Yield the keys of the lists of tables, and what they are if they are left out."""
    for name in LISTS_OF_TABLES:
        yield from ("", f"### {name}", "")
        (item, _) = get_args(list_keys(Tables)[name].annotation)
        said: dict[str, list[str]] = {}
        for key, field in list_keys(item).items():
            default = None if field.is_required() else field.get_default(call_default_factory=True)
            left_out = "" if default in (None, "", {}) else f"={_literal(default)}"
            said.setdefault(field.description or "", []).append(f"`{key}{left_out}`")
        yield from (f"- {', '.join(keys)}: {description}" for description, keys in said.items())


def list_python(_: str) -> Iterator[str]:
    """Yield the settings whose default in Python is not the shipped value, and that default."""
    found: dict[str, list[str]] = {}
    for table, policy in PYTHON.items():
        defaults = {each.name: each.default for each in dataclasses.fields(policy)}
        for name, key in list_keys(TABLES[table]).items():
            if name in defaults and _render(key.default or None) != _render(defaults[name] or None):
                found.setdefault(_render(defaults[name]), []).append(f"`{table}.{name}`")
    yield from (f"- {', '.join(names)}: {default}" for default, names in found.items())


class RecordField(NamedTuple):
    """A field of the records: its name, the types of its value, its unit, a sentence.

    left_out: what it is if it is left out, in JSON; None if it is unknown then.
    meaning: empty if the sentence of the field before says it of both.
    topic: what it and those after it tell of; None if that goes on.
    """

    name: str
    type: str
    unit: Unit | None
    left_out: str | None
    meaning: str
    topic: str | None


def describe_fields(record: type[BaseModel]) -> list[RecordField]:
    """Return all fields of a record, in the order in which a JSON line has them."""
    properties: Mapping[str, Mapping[str, Any]] = record.model_json_schema()["properties"]
    return [
        RecordField(
            name,
            _render_type(schema),
            schema["unit"],
            None if name == "kind" else _render_left_out(schema.get("default")),
            schema["description"],
            schema["topic"],
        )
        for name, schema in properties.items()
    ]


def _render_type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value in JSON's words, without null: `integer`, `"on" or "off"`."""
    kinds = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    (kind,) = kinds
    if "enum" in kind:
        return " or ".join(f'"{value}"' for value in kind["enum"])
    return f'"{kind["const"]}"' if "const" in kind else str(kind["type"])


def _render_left_out(default: object) -> str | None:
    return None if default is None else json.dumps(default).removesuffix(".0")


def list_record(kind: str) -> Iterator[str]:
    """Yield the fields of a kind of record, by what they tell of.

    An MCP response has some of the fields of a request, and their sentences are there.
    """
    rows: list[list[RecordField]] = []
    for field in describe_fields(RECORDS[kind]):
        if kind == "mcp" and field.name in RequestRecord.model_fields:
            continue
        if field.meaning:
            rows.append([])
        rows[-1].append(field)
    for row in rows:
        first = row[0]
        if first.topic:
            yield from ("", f"**{first.topic}**", "")
        names = ", ".join(f"`{field.name}`" for field in row)
        notes = ", ".join(dict.fromkeys(note for field in row for note in _note(field)))
        yield f"- {names}{f' ({notes})' if notes else ''}: {first.meaning}"


def _note(field: RecordField) -> Iterator[str]:
    """Yield what neither the name of a field nor its sentence says of its value."""
    default = (field.left_out or "").strip('"')
    if default:
        yield f"`{default}`"
    values = [each for each in re.findall(r'"([^"]*)"', field.type) if each != default]
    if not all(f"`{value}`" in field.meaning for value in values):
        yield from (f"`{value}`" for value in values)
    if field.unit and _IN_NAMES.get(field.unit) not in field.name.split("_"):
        yield field.unit


_IN_NAMES: Mapping[str, str] = {
    "characters": "chars",
    "tokens": "tokens",
    "bytes": "bytes",
    "microseconds": "us",
    "seconds": "seconds",
    "US dollars": "dollars",
}
"""The units that the name of a field can say, by the word there. One of `input tokens` cannot."""


RECORDS: Mapping[str, type[BaseModel]] = {"chat": RequestRecord, "mcp": McpRecord}


def list_commands(_: str) -> Iterator[str]:
    """Yield the commands of `obsmask`: what each is for, and how it is called.

    What an option does, `--help` says.
    """
    for context, command in _walk(obsmask, click.Context(obsmask, info_name="obsmask")):
        assert context.parent is not None
        if context.parent.command is obsmask:
            yield from (f"### {context.command_path}", "")
        options = [
            each
            for each in command.params
            if isinstance(each, click.Option) and each.opts[-1] not in ("--config", "--set")
        ]
        rest = " ".join(command.collect_usage_pieces(context)).replace("[OPTIONS]", "").split()
        purpose, _, _ = inspect.cleandoc(command.help or "").partition("\n\n")
        yield f"`{' '.join((context.command_path, *map(_spell_option, options), *rest))}`"
        yield from ("", " ".join(purpose.split()), "")


def _walk(
    group: click.Group, context: click.Context
) -> Iterator[tuple[click.Context, click.Command]]:
    """Yield the commands of a group, and those below them, each with its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=name, parent=context)
        yield own, command
        if isinstance(command, click.Group):
            yield from _walk(command, own)


def _spell_option(option: click.Option) -> str:
    name = "|".join((*option.opts, *option.secondary_opts))
    if option.is_flag:
        return f"[{name}]"
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return f"[{name} {option.metavar or '|'.join(choices)}]"


def list_reasons(_: str) -> Iterator[str]:
    """Yield the reasons by which a tool result is changed or kept."""
    for reason, info in REASONS.items():
        by = "" if info.strategy == "schema1" else f" ({info.strategy})"
        yield f"- `{reason}`{by}: {info.sentence}"


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
    """Yield what `from masking import ...` gives."""
    names = ", ".join(f"`{name}`" for name in masking.__all__)
    yield from textwrap.wrap(names, _PAGE_WIDTH, break_long_words=False)


LISTS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "reasons": list_reasons,
    "roads": list_roads,
    "common settings": list_common,
    "settings": list_settings,
    "lists of tables": list_lists_of_tables,
    "python": list_python,
    "public names": list_public_names,
    "record": list_record,
    "commands": list_commands,
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
