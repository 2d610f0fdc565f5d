"""The configuration: which file holds, what it says now, and the lines that say what is on.

It is the first of several files: the option's, the environment's, the user's own, the shipped one.
While an engine runs, a thread looks at the file and takes up its changes.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from addon.config_commands import Advice
from addon.counts import pluralize
from addon.places import (
    FileState,
    config_folder,
    read_regular,
    read_state,
    shipped,
)
from addon.recall import render_folder
from addon.stored_prices import find_stored
from addon.version import VERSION
from masking.config import (
    REDACTION_VARIABLE,
    ROOT,
    ConfigValue,
    MemorySettings,
    PageSettings,
    Settings,
    apply_redaction_variable,
    change_everywhere,
    find_changed,
    list_keys,
    list_values,
    parse_settings,
    read_document,
    read_override,
)
from masking.errors import ConfigError, OverrideError, printable
from masking.prices import PriceSettings
from masking.window import MaskPolicy

logger = logging.getLogger("observation_masking")

CONFIG_VARIABLE = "OBSMASK_CONFIG"
CONFIG_NAME = "config.toml"

AT_THE_NEXT_START = frozenset(f"page.{key}" for key in list_keys(PageSettings))
"""Settings, as `table.key`, that a running proxy cannot take up, such as where it listens."""

_LOOK_SECONDS = 0.25
"""Between two looks at the file. Two of them have to agree before a change is taken up."""

_RECALLED = "[{tool_name}: {original_chars} chars masked; to read: obsmask recall {recall}]"
"""A placeholder that says how to read what it stands for."""


# Which file holds


Place = Literal["option", "environment", "working directory", "user", "shipped"]


class FoundConfig(NamedTuple):
    """A file, and what named it."""

    path: Path
    place: Place

    @property
    def awaited(self) -> Path | None:
        """The user's own file, if there is none yet: once written, it comes before this one.

        `obsmask run` and `obsmask proxy` name the shipped file to their proxy, so that counts, too.
        """
        try:
            own = user_config()
            is_default = self.place in ("shipped", "option") and self.path == shipped(CONFIG_NAME)
            return own if is_default and not own.exists() else None
        except (OSError, RuntimeError):
            return None

    def open(self, overrides: Sequence[str] = (), adapt: "Adapt | None" = None) -> "ConfigFile":
        """Return its settings, which follow its edits. Raises as `ConfigFile` does."""
        return ConfigFile(self.path, overrides, adapt, self.awaited)


def locate_config(option: str, *, script: Path | None = None) -> FoundConfig:
    """Return the file to use: the option's, the environment's, the user's own, the shipped one.

    `script` is the `addon/mask.py` that mitmdump loaded. A `config.toml` in the working directory
    comes before the user's own if the script belongs to that folder. Any other folder may be a
    stranger's project, which must not steer the proxy: its file is not even opened, and the log
    says that it is ignored. Raises ConfigError for a file that is named and is not there.
    """
    if option:
        return FoundConfig(_expand(option), "option")
    if named := os.environ.get(CONFIG_VARIABLE):
        path = _expand(named)
        if not os.path.lexists(path):
            raise ConfigError(f"${CONFIG_VARIABLE} names {path}: no such file")
        return FoundConfig(path, "environment")
    if script and (found := _find_with_script(script)):
        return FoundConfig(found, "working directory")
    if own := _find_own():
        return FoundConfig(own, "user")
    return FoundConfig(shipped(CONFIG_NAME), "shipped")


def user_config() -> Path:
    """Return where the user's own configuration is, or would be.

    Raises RuntimeError if the user has no home.
    """
    return config_folder() / CONFIG_NAME


def describe_local(used: Path) -> str | None:
    """Return a line on a configuration of ours in the working directory: no command reads it.

    None if there is none there, or if it is the one in use, because it was named.
    """
    path = _find_in_working_directory()
    try:
        if path is None or path.resolve() == used.resolve() or not _has_our_table(path):
            return None
    except ConfigError:  # it may be anybody's
        return None
    if (path.parent / "addon" / "mask.py").is_file():
        return (
            f"{CONFIG_NAME} in this folder is used only when mitmdump loads the addon/mask.py in it"
        )
    return f"{CONFIG_NAME} in this folder is not used: it may be part of somebody else's project"


def _find_with_script(script: Path) -> Path | None:
    """Return the configuration in the working directory if `script` is in that folder.

    Where the script really is counts: a project may hold a link to it.
    """
    path = _find_in_working_directory()
    if path is None:
        return None
    if path.parent != script.resolve().parents[1]:
        logger.info(
            printable(
                f"{path} is ignored: mitmdump loaded {script.resolve()}, which is not in "
                f"that folder (if the file is yours: --set mask_config={CONFIG_NAME})"
            )
        )
        return None
    if not _has_our_table(path):
        logger.info(printable(f"{path} has no [{ROOT}] table: ignored"))
        return None
    return path


def _find_in_working_directory() -> Path | None:
    try:
        path = Path.cwd() / CONFIG_NAME
        return path if path.is_file() else None
    except OSError:  # the folder is gone, or not ours to read
        return None


def _has_our_table(path: Path) -> bool:
    data, _ = read_regular(path)
    try:
        return ROOT in read_document(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.problem}", error.path) from None


def _find_own() -> Path | None:
    try:
        path = user_config()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError) as error:  # not ours to read, or there is no home
        reason = getattr(error, "strerror", None) or error
        logger.warning(printable(f"cannot look for your own configuration: {reason}"))
        return None


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no such user, or the working directory is gone
        raise ConfigError(f"cannot find the configuration: {error}", name) from None


def advise(file: Path) -> Advice:
    """Return how to change a file: commands name it unless they find it by themselves."""
    try:
        own = user_config()
    except (OSError, RuntimeError):
        own = None
    return Advice(None if file in (own, shipped(CONFIG_NAME)) else file)


# What it says now


Adapt = Callable[[Settings], Settings]
"""Makes of settings what an engine can do; raises ConfigError for what it cannot."""


class Change(NamedTuple):
    """An edit of the file: the settings that it changed, or the mistake that kept them."""

    changed: tuple[str, ...] = ()
    problem: str | None = None


class ConfigFile:
    """A file of settings, and those that hold.

    Overrides (`schema1.window_turns=4`) come before the file, the environment before both. The
    price list that is stored at the start holds until the end. `adapt` makes of the settings what
    the engine can do. A file that is `awaited` takes this one's place once it exists, so that a
    user's first `obsmask config set` reaches a proxy that runs already. Raises ConfigError, with
    the file's name, if the file cannot be read or used, and OverrideError for an override.
    """

    def __init__(
        self,
        path: Path,
        overrides: Sequence[str] = (),
        adapt: Adapt | None = None,
        awaited: Path | None = None,
    ) -> None:
        self.path = path
        self.awaited = awaited
        self._adapt = adapt
        self._overrides = tuple(overrides)
        self._price_list, passed_over = find_stored()
        self.data, state = read_regular(path)
        self._taken: FileState | None = state
        self._seen: FileState | None = state
        self.settings, warning = self._read(self.data)
        for problem in (passed_over, warning):
            if problem:
                logger.warning(problem)

    @property
    def advice(self) -> Advice:
        """How to change this file."""
        return advise(self.path)

    @property
    def overridden(self) -> tuple[str, ...]:
        """The settings that overrides give, as `table.key`."""
        return tuple(dict.fromkeys(".".join(read_override(o).keys) for o in self._overrides))

    def look(self) -> Change | None:
        """Look at the file once, and take up a change if two looks in a row agree on it.

        So a file that is half written is not taken up. After a mistake the settings stay as they
        were. None if there is nothing new.
        """
        if self.awaited is not None and read_state(self.awaited) is not None:
            self.path, self.awaited = self.awaited, None
        state, before = read_state(self.path), self._seen
        self._seen = state
        return self._take_up(state) if before == state != self._taken else None

    def _take_up(self, state: FileState | None) -> Change | None:
        try:
            data, read = read_regular(self.path)
            if read != state:  # changed between the look and the reading
                return None
            settings, _ = self._read(data)
        except ConfigError as error:
            self._taken = state
            return Change(problem=str(error))
        changed = find_changed(self._list_values(self.data), self._list_values(data))
        self.data, self._taken, self.settings = data, state, settings
        return Change(changed)

    def _list_values(self, data: bytes) -> list[ConfigValue]:
        return list_values(data, self._overrides, os.environ.get(REDACTION_VARIABLE))

    def _read(self, data: bytes) -> tuple[Settings, str | None]:
        """Return the settings that the file gives with these bytes, and a warning.

        The environment's switch and the stored prices hold for the settings of each rule, too.
        """
        try:
            settings = parse_settings(data, self._overrides)
            if settings is not None and self._adapt is not None:
                settings = self._adapt(settings)
        except OverrideError:
            raise
        except ConfigError as error:
            raise ConfigError(f"{self.path}: {error.problem}", error.path) from None
        if settings is None:
            raise ConfigError(f"no [{ROOT}] table", str(self.path))
        switch = os.environ.get(REDACTION_VARIABLE)

        def change(one: Settings) -> Settings:
            enabled = apply_redaction_variable(one.strategies.redaction, switch)[0].enabled
            redaction = replace(one.redaction, enabled=enabled)
            return replace(one, redaction=redaction, price_list=self._price_list)

        _, warning = apply_redaction_variable(settings.strategies.redaction, switch)
        return change_everywhere(settings, change), warning


class ConfigWatch:
    """Looks at the file from now on. `report` is called with each change that was taken up.

    Both happen in a thread of its own: while an engine serves, a mount that hangs stops that thread
    alone. An engine's event loop reads the file only to open it, at the start and when mitmproxy's
    options name another file, because a mistake in it is the answer to that.
    """

    def __init__(self, config: ConfigFile, report: Callable[[Change], object]) -> None:
        self._config, self._report = config, report
        self._ending = threading.Event()
        threading.Thread(target=self._run, name="configuration", daemon=True).start()

    def close(self) -> None:
        """End the watch after a look that is under way; do not wait for that."""
        self._ending.set()

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            change = self._config.look()
            if change and not self._ending.is_set():
                self._report(change)


# The lines that say what is on: at the start of an engine, and when the file changes


def render_start(config: ConfigFile) -> str:
    """Return the line that says what is on, with which settings, and where they come from."""
    software = f"observation-masking {VERSION}"
    return printable(f"{software} {_render_state(config)}")


def render_change(config: ConfigFile, change: Change) -> str:
    """Return the line that says what became of an edit of the file."""
    if change.problem:
        return f"configuration unchanged: {change.problem}"
    if not change.changed:
        return printable(f"configuration reloaded, no setting changed ({config.path})")
    line = f"configuration reloaded, {', '.join(change.changed)} changed"
    if later := [name for name in change.changed if name in AT_THE_NEXT_START]:
        line += f" (at the next start: {', '.join(later)})"
    return printable(f"{line}: {_render_state(config)}")


def _render_state(config: ConfigFile) -> str:
    settings, policy = config.settings, config.settings.policy
    active = "; ".join(_render_strategies(settings))
    if settings.mode == "off":
        but = ", except where a rule turns it on" if settings.any_changes else ""
        state = f"OFF, as mode is off{but}"
    elif not active:
        wrong = "window_turns is 0 or less" if policy.enabled else "enabled is not true"
        state = f"OFF, as schema1.{wrong}"
    elif settings.mode == "on":
        state = f"ON: {active}"
    else:
        but = "nothing but what a rule asks for is" if settings.any_changes else "nothing is"
        state = f"OBSERVING: {but} changed; with mode=on, it {active}"
    if active and settings.changes and settings.holdout_percent:
        state += f"; only observes {settings.holdout_percent:g}% of the conversations"
    overridden = f"; overridden: {', '.join(config.overridden)}" if config.overridden else ""
    return f"{state} ({config.path}{overridden})"


def render_recall(settings: Settings, advice: Advice) -> str | None:
    """Return the line that says where content is kept; None where none is."""
    if not (settings.recall.enabled and settings.any_changes):
        return None
    line = f"masked content is kept in {render_folder(settings.recall)}"
    if not any(one.policy.rendering.parsed.names_recall for one in settings.with_rules):
        shown = {"recall.enabled": True, "schema1.placeholder_template": _RECALLED}
        line += (
            ", but no placeholder shows the id to read it by. This one does: "
            f"{advice.change(shown)}"
        )
    return printable(line)


def _render_strategies(settings: Settings) -> Iterator[str]:
    """Yield what is done, in words that begin with a verb."""
    policy, redaction = settings.policy, settings.strategies.redaction
    if policy.masks:
        yield _render_policy(policy, settings.price_settings)
    strategies = settings.strategies
    if strategies.arrival.enabled and strategies.shortens:
        yield f"shortens new results of more than {strategies.arrival.max_chars:,} characters"
    if redaction.redacts:
        yield f"redacts the results of {', '.join(redaction.tool_names)}"
    if settings.reduction.reduces:
        yield f"reduces requests to {settings.reduction.max_input_chars:,} characters"
    if settings.mcp.cuts:
        yield f"cuts strings of MCP servers from {settings.mcp.max_chars:,} characters on"
    if settings.by_rule and settings.any_enabled:
        yield f"follows {pluralize(len(settings.by_rule), 'rule')} for some requests"


def _render_policy(policy: MaskPolicy, price_settings: PriceSettings) -> str:
    rounds = pluralize(policy.window_turns, "round")
    words = [f"keeps the results of the last {rounds} of tool calls"]
    if policy.keep_errors:
        words.append("keeps errors")
    if policy.keep_last_k_per_tool and policy.keep_last_k_per_tool > 0:
        words.append(f"keeps the last {policy.keep_last_k_per_tool} of each tool")
    pricing = price_settings.cache_pricing
    if pricing == "auto":
        read, write = price_settings.assumed
        listed = "at list prices, else "
    elif pricing == "none" or pricing[0] >= pricing[1]:
        return ", ".join((*words, "masks others at once"))
    else:
        listed, (read, write) = "", pricing
    prices = f"{listed}at {read:g} for a cached and {write:g} for a written token"
    masks = f"masks others when that pays ({prices}, with a loss of at most {policy.max_loss:.0%})"
    return ", ".join((*words, masks))


_SHARED_BY_NONE = (
    "the processes of this engine share nothing, and what one of them remembers would change what "
    'the others send: leave it "auto", or set it false'
)


def without_memory(settings: Settings) -> Settings:
    """Return settings under which each process sends the same bytes for the same request.

    "auto" means off. Raises ConfigError if a memory is asked for.
    """
    if any(one.memory.enabled is True for one in settings.with_rules):
        raise ConfigError(_SHARED_BY_NONE, f"{ROOT}.memory.enabled")
    off = MemorySettings(enabled=False)
    return change_everywhere(settings, lambda one: replace(one, memory=off))
