"""`obsmask run -- COMMAND`: an agent behind a proxy of its own, and what masking saved."""

import contextlib
import os
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import click

from addon.agents import CLAUDE_CODE
from addon.commands.claude_code import BASE_URL, find_places, find_problem, plan, plan_reverse
from addon.commands.foreground import KILLED, NOT_FOUND, NOT_RUNNABLE, run_foreground
from addon.commands.lines import say
from addon.commands.options import (
    MOST_PORTS,
    OBSERVE,
    PolicyCommand,
    as_value,
    list_road_overrides,
    name_road,
    observe_option,
    policy_options,
    read_overrides,
    read_proxy_arguments,
    road_options,
    whole_number,
)
from addon.commands.other_tools import find_other_tools
from addon.config import advise
from addon.counts import pluralize
from addon.network import Address, find_free_port, read_address
from addon.places import make_folder, state_folder, write_private
from addon.proxy.authorities import authority_path, make_bundles, user_bundle
from addon.proxy.base_urls import VENDOR, Server, behind, point_at, read_server
from addon.proxy.environment import REPLACED, client_environment, trusting_environment
from addon.proxy.health import Health, find_health
from addon.proxy.process import ProxyProcess, RunFolder
from addon.proxy.transparent import (
    DEFAULT_PORTS,
    Counts,
    NetworkOptions,
    TransparentNetwork,
    find_missing,
)
from addon.proxy.upstream import find_upstream, read_upstream
from addon.recall import FOLDER_VARIABLE
from addon.records.file import read_records
from addon.records.tally import Tally
from addon.records.words import (
    PASSED,
    WhyUnmasked,
    count_requests,
    explain_passed,
    list_unmaskable,
    render_last_line,
    render_outgrown,
    tell_roads,
    why_nothing_masked,
)
from masking.roads import OPTIONAL_ROADS
from masking.wire import SIGNED


def _read_ports(text: str) -> tuple[int, ...]:
    read = whole_number(1, MOST_PORTS)
    return tuple(dict.fromkeys(read(each) for each in text.split(",") if each.strip()))


@click.command(
    "run",
    cls=PolicyCommand,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] --",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but the agent's own output.")
@click.option(
    "--page",
    "shows_page",
    is_flag=True,
    help="Open the live page in your browser, and print its URL.",
)
@observe_option
@road_options
@policy_options
@click.option("--tag", default="", metavar="TEXT", help="Tag this run in the records.")
@click.option(
    "--force-http",
    is_flag=True,
    help="Refuse WebSockets to models. Clients that fall back to HTTP are masked; the others fail.",
)
@click.option(
    "--no-agent-setup",
    is_flag=True,
    help="Don't set Claude Code's base URL or refuse codex's WebSockets: most of their requests "
    "then go unmasked.",
)
@click.option(
    "--proxy",
    "address",
    type=as_value(read_address),
    metavar="ADDRESS",
    help="Use this running proxy instead of starting one.",
)
@click.option(
    "--reverse",
    type=as_value(read_server),
    metavar="URL",
    help="Also proxy the model server at URL, and point the agent's base-URL variables, or codex's "
    "setting, there: for local servers, and for clients that can't use or trust a proxy.",
)
@click.option(
    "--transparent",
    is_flag=True,
    help="Route all of COMMAND's HTTPS through the proxy, in a network namespace (Linux; needs "
    "passt and nftables).",
)
@click.option(
    "--ports",
    type=as_value(_read_ports),
    metavar="PORTS",
    help="With --transparent: ports to route. Default: 80,443.",
)
@click.option(
    "--loopback",
    type=as_value(_read_ports),
    metavar="PORTS",
    help="With --transparent: ports of your machine's loopback that COMMAND reaches past the "
    "proxy.",
)
@click.argument(
    "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGS]..."
)
def command(command: tuple[str, ...], quiet: bool, shows_page: bool, **given: object) -> int:
    """Run an agent behind its own proxy, and print what masking saved.

    The agent keeps the terminal, its signals, and its exit code. For Claude Code,
    ANTHROPIC_BASE_URL is set to the proxy. Several can run at once.
    """
    if os.name != "posix":
        raise click.ClickException(
            "run needs Linux or macOS; elsewhere: obsmask proxy, obsmask env"
        )
    if shutil.which(command[0]) is None and not os.path.exists(command[0]):  # noqa: PTH110
        return _fail(command[0], "no such command", NOT_FOUND)
    loading = click.get_current_context().find_object(ProxyProcess)
    with _startup_notice(loading, quiet=quiet):
        opened = _open_session(command, given, loading)
    with opened as session:
        if not quiet:
            say(session.notice)
            for other in session.plan.others if session.plan else find_other_tools(os.environ):
                say(other)
            if session.plan and (session.plan.hindrance or _is_news(session.plan.line)):
                say(session.plan.line)
        if shows_page:
            _show_page(session.page)  # before the command has the terminal
        started = time.monotonic()
        try:
            code = run_foreground(session.command, session.environment, session.notice_end)
        except OSError as error:
            return _fail(command[0], error.strerror or str(error), NOT_RUNNABLE)
        line = session.finish(Ended(command, code, time.monotonic() - started))
    if not quiet:
        say(line)
    return code


def _is_news(line: str) -> bool:
    """Whether how an agent is led through the proxy is not as it was said last; remember it."""
    try:
        path = state_folder() / "last-said"
        with contextlib.suppress(FileNotFoundError):
            if path.read_text() == line:
                return False
        make_folder(path.parent)
        write_private(path, line.encode())
    except (OSError, ValueError, RuntimeError):  # what cannot be remembered is said again
        pass
    return True


_STARTING = "obsmask: starting the proxy..."
_SILENT_SECONDS = 0.5


@contextlib.contextmanager
def _startup_notice(loading: ProxyProcess | None, *, quiet: bool) -> Iterator[None]:
    """On a terminal, say after half a second what the user waits for; take it back at the end."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    is_shown = False

    def show() -> None:
        nonlocal is_shown
        is_shown = True
        sys.stderr.write(_STARTING)
        sys.stderr.flush()

    waited = time.monotonic() - loading.launched if loading else 0.0
    timer = threading.Timer(max(0.0, _SILENT_SECONDS - waited), show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be writing just now
        if is_shown:
            sys.stderr.write(f"\r{' ' * len(_STARTING)}\r")  # as any terminal understands
            sys.stderr.flush()


def _open_session(
    command: tuple[str, ...], given: Mapping[str, Any], loading: ProxyProcess | None
) -> "OwnProxy | ExternalProxy":
    forces_http, no_agent_setup = given["force_http"], given["no_agent_setup"]
    if forces_http and no_agent_setup:
        raise click.UsageError("--no-agent-setup and --force-http exclude each other")
    if given["address"] is None:
        transparent = _read_transparent(given)
        more = {
            'websocket.mode="http"': forces_http,
            'websocket.mode="pass"': no_agent_setup,
            OBSERVE: given["observe"],
        }
        wanted = [override for override, is_wanted in more.items() if is_wanted]
        wanted += list_road_overrides(given)
        if transparent is not None:
            wanted.append(f"page.port={transparent.page_port}")
        return OwnProxy(
            ProxyOptions(
                command=command,
                arguments=read_proxy_arguments(given, given["tag"], wanted),
                reverse=given["reverse"],
                forces_http=forces_http,
                no_agent_setup=no_agent_setup,
                transparent=transparent,
            ),
            loading,
        )
    if (
        forces_http
        or read_overrides(given)
        or any(given[name] for name in ("config", "tag", "reverse", "transparent"))
        or any(given[name] for name in ("observe", *map(name_road, OPTIONAL_ROADS)))
    ):
        raise click.UsageError(
            "--proxy takes no settings, tag or server: those are the proxy's own"
        )
    return ExternalProxy(given["address"], command, no_agent_setup=no_agent_setup)


def _read_transparent(given: Mapping[str, Any]) -> NetworkOptions | None:
    if not given["transparent"]:
        for name in ("ports", "loopback"):
            if given[name]:
                raise click.UsageError(f"--{name} is for --transparent")
        return None
    if given["reverse"]:
        raise click.UsageError("--transparent and --reverse exclude each other")
    if missing := find_missing():
        raise RuntimeError(str(missing))
    if upstream := read_upstream(os.environ):
        remedy = f"unset {upstream.variable}"
        if REPLACED in os.environ:
            remedy = 'eval "$(obsmask env --unset)"'
        raise ValueError(
            f"--transparent goes to no other proxy, and {upstream.variable} names one: {remedy}"
        )
    return NetworkOptions(
        find_free_port(), given["ports"] or DEFAULT_PORTS, given["loopback"] or ()
    )


def _show_page(url: str | None) -> None:
    if url is None:
        say("the proxy has no page; its log says why")
        return
    from addon.commands.page import open_page  # which loads the doctor, too

    say(f"page: {url}")
    open_page(url, os.environ)


def _fail(command: str, problem: str, code: int) -> int:
    say(f"{command}: {problem}")
    return code


# What the command runs behind: a proxy of its own, or one that runs already

_MAX_RESTARTS = 20

_FORCE_HTTP = "obsmask run --force-http"
_WITH_AGENT_SETUP = "obsmask run without --no-agent-setup"


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """The proxy that a command gets, and the command.

    command: what is run behind it.
    arguments: mitmdump's, without those for where it listens.
    reverse: the server to which the clients' base URLs are to lead through it.
    forces_http: whether all clients of a WebSocket are sent to HTTP.
    no_agent_setup: whether nothing about the client is changed.
    transparent: the network that the command gets; None if it has that of the machine.
    """

    command: Sequence[str]
    arguments: Sequence[str]
    reverse: Server | None = None
    forces_http: bool = False
    no_agent_setup: bool = False
    transparent: NetworkOptions | None = None


class OwnProxy:
    """A proxy that starts and ends with the command. Should it die, it is started again.

    loading: the proxy, if its process has been started already.

    Raises OSError, ValueError if the environment names a proxy that cannot come behind it, and
    RuntimeError if the proxy does not start.
    """

    def __init__(self, options: ProxyOptions, loading: ProxyProcess | None) -> None:
        self._options = options
        find_upstream(os.environ)  # so that a mistake there is reported before anything starts
        self._deaths, self._lost_network = 0, False
        self._network = None
        self._folder = folder = loading.folder if loading else RunFolder()
        self._proxy = loading or ProxyProcess(folder)
        try:
            self._bundles = user, _, authority = make_bundles(folder.find_spare)
            if options.transparent is not None:
                log = folder.log or Path(os.devnull)
                self._network = network = TransparentNetwork(
                    options.transparent, user, authority, log, folder.path
                )
                self._proxy = ProxyProcess(folder, network.port, network.for_proxy(folder.path))
            self._healths = [self._start()]
            self._prepare(options)
        except BaseException:
            self.__exit__()
            raise

    def _prepare(self, options: ProxyOptions) -> None:
        """Work out what the command is started with."""
        address = self._proxy.address
        base_urls = point_at(address, options.reverse, os.environ) if options.reverse else {}
        before = {**os.environ, **base_urls}
        if self._network:
            before = trusting_environment(self._bundles.user, os.environ)
        self.plan = None
        if not options.no_agent_setup:
            self.plan = plan(
                options.command, before, find_places(before), address, self._healths[-1]
            )
        if options.reverse and self.plan is None:
            self.plan = plan_reverse(options.command, address, options.reverse)
        self.command = self.plan.command if self.plan else options.command
        variables = self.plan.variables if self.plan else {}
        if self._network:
            self.command = (*self._network.for_command(Path.cwd()), *self.command)
            own = {**before, **variables}
        else:
            changes = {**base_urls, **variables}
            own = client_environment(address.url, self._bundles.user, os.environ, changes)
            own = {**os.environ, **own}
        self.environment = {**own, **_name_recall_folder(self._healths[-1])}

    def __enter__(self) -> "OwnProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._folder.close()

    def _end(self) -> None:
        self._proxy.stop()
        if self._network:
            self._network.close()

    def _start(self) -> Health:
        modes = self._network.modes if self._network else ()
        authority = self._bundles.authority
        where = () if authority == authority_path() else ("--set", f"confdir={authority.parent}")
        arguments = (*where, *self._options.arguments)
        return self._proxy.start(arguments, self._bundles.upstream, modes)

    @property
    def notice(self) -> str:
        """A line on where this run keeps its files, if that is not where they belong."""
        return self._folder.notice

    @property
    def page(self) -> str | None:
        """Where the live page is; None if there is none."""
        return self._healths[-1].page

    def notice_end(self, process: int) -> None:
        """Start the proxy again, if it is what has ended."""
        if self._network and self._network.has_ended(process):
            self._lost_network = True
        if not self._proxy.forget(process):
            return
        self._deaths += 1
        if self._deaths <= _MAX_RESTARTS:
            with contextlib.suppress(OSError, RuntimeError):  # the log says why
                self._healths.append(self._start())

    def finish(self, ended: "Ended") -> str:
        """End the proxy, and return the last line of the run; empty if there is nothing to say.

        Then no log is left behind, either.
        """
        last = find_health(self._proxy.address) or self._healths[-1]
        past = self._network.count() if self._network else None
        self._end()
        tally = _count(last.records, {health.run for health in self._healths}, None)
        is_kept = self._folder.path != self._folder.spare
        ended = ended._replace(past=past, lost_network=self._lost_network, is_kept=is_kept)
        log = self._folder.log if is_kept else None
        line = render_end(tally, last, self._find_remedies(), ended, deaths=self._deaths, log=log)
        if not line:
            self._folder.drop_log()
        return line

    def _find_remedies(self) -> "Remedies":
        if self._options.no_agent_setup:
            return Remedies(_WITH_AGENT_SETUP, _WITH_AGENT_SETUP, keeps_sockets=True)
        held = None if self._options.forces_http else _FORCE_HTTP
        if self.plan is None:
            return Remedies(CLAUDE_CODE.start, held)
        return Remedies(None, held, self.plan.hindrance)


class ExternalProxy:
    """A proxy that runs already, for others as well. Raises RuntimeError if there is none."""

    def __init__(self, address: Address, command: Sequence[str], *, no_agent_setup: bool) -> None:
        health = find_health(address)
        if health is None:
            raise RuntimeError(
                f"no proxy with the addon answers at {address.url}: obsmask proxy starts one"
            )
        self._address, self._since, self._health = address, datetime.now(UTC), health
        self.plan = None
        if not no_agent_setup:
            self.plan = plan(command, os.environ, find_places(os.environ), address, health)
        self.command = self.plan.command if self.plan else command
        changes = self.plan.variables if self.plan else {}
        self.environment = {
            **os.environ,
            **client_environment(address.url, user_bundle(), os.environ, changes),
            **_name_recall_folder(health),
        }

    def __enter__(self) -> "ExternalProxy":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def page(self) -> str | None:
        """Where the live page is; None if there is none."""
        return self._health.page

    notice = ""

    def notice_end(self, process: int) -> None:
        pass

    def finish(self, ended: "Ended") -> str:
        """Return the last line of the run: about all requests meanwhile, whoever sent them."""
        health = find_health(self._address) or self._health
        tally = _count(health.records, {self._health.run}, self._since)
        line = render_end(tally, health, self._find_remedies(), ended, deaths=0, log=None)
        return line and f"through {self._address.url} meanwhile: {line}"

    def _find_remedies(self) -> "Remedies":
        if self.plan is not None:
            return Remedies(hindrance=self.plan.hindrance)
        if find_problem(self._address, self._health):
            return Remedies()
        return Remedies(f"{BASE_URL}={behind(self._address, VENDOR)} in its environment")


def _name_recall_folder(health: Health) -> Mapping[str, str]:
    """Return the variable by which the agent's `obsmask recall` finds the proxy's folder."""
    return {FOLDER_VARIABLE: health.recall_folder} if health.recall_folder else {}


def _count(path: str | None, runs: set[str], since: datetime | None) -> Tally:
    tally = Tally()
    with contextlib.suppress(OSError):  # what could not be written cannot be read: the proxy knows
        for record in read_records(Path(path), since) if path else ():
            if record.run in runs:
                tally.add(record)
    return tally


# The last line

_SHORT_SECONDS = 5.0
"""Who asks a model takes longer, as a rule, or has an answer to show for it."""

_ALONE = ("-h", "-v", "-V", "help", "version")
_ANYWHERE = ("--help", "--version")


class Ended(NamedTuple):
    """The command, its exit code, and how many seconds it ran.

    past: what went past the proxy, of a command in a network of its own.
    lost_network: whether that network ended before the command did.
    is_kept: whether its records stay.
    """

    command: Sequence[str]
    code: int
    seconds: float
    past: Counts | None = None
    lost_network: bool = False
    is_kept: bool = True

    @property
    def is_informative(self) -> bool:
        """Whether the command was only asked for its help, or its version."""
        arguments = self.command[1:]
        is_alone = len(arguments) == 1 and arguments[0] in _ALONE
        return is_alone or any(word in _ANYWHERE for word in arguments)


def _explain_nothing(ended: Ended) -> str:
    """Return what may be wrong if no request came; empty if none was to be expected."""
    called = shlex.join(ended.command)
    if ended.is_informative:
        return ""
    if ended.seconds < _SHORT_SECONDS:
        if 0 < ended.code <= KILLED:
            return (
                f"{ended.command[0]} failed before any request to a model came through the proxy; "
                f"if it names the network or a certificate: obsmask doctor -- {called}"
            )
        return ""
    if ended.past is not None:
        return "no request to a model came through the proxy"
    return (
        f"no request to a model came through the proxy: obsmask doctor -- {called} looks for the "
        f"reason; obsmask run --reverse URL -- {called} is for an agent that takes no proxy"
    )


class Remedies(NamedTuple):
    """What would have requests masked that passed; None if nothing would, or it was done already.

    signed: claude-code's, which it signs; `hindrance` says why nothing was done about that.
    held: those of a WebSocket, whose provider holds the history; `keeps_sockets` is whether this
        run has them pass, whatever the configuration says.
    """

    signed: str | None = None
    held: str | None = None
    hindrance: str = ""
    keeps_sockets: bool = False


def render_end(
    tally: Tally, health: Health, remedies: Remedies, ended: Ended, *, deaths: int, log: Path | None
) -> str:
    """Return the line that ends a run: what it saved, and what stood in the way.

    It is empty if nothing came through and nothing was to be expected.

    deaths: how often the proxy ended by itself; `log`, if there is one, says why.
    """
    line = "; ".join(filter(None, _render_parts(tally, health, remedies, ended, deaths, log)))
    roads = "" if health.lost_records else tell_roads(tally)
    return f"{line}. {roads}" if roads else line


def _render_parts(
    tally: Tally, health: Health, remedies: Remedies, ended: Ended, deaths: int, log: Path | None
) -> Iterator[str]:
    if health.lost_records:
        yield f"{health.summary}; {count_requests(health.lost_records)} could not be recorded"
    elif tally.count:
        yield render_last_line(tally, _explain_unmasked(tally, health, remedies))
    else:
        yield _explain_nothing(ended)
    signed = tally.passed_through[SIGNED]
    if tally.changed and signed and remedies.signed and explain_passed(tally, SIGNED).command:
        passed = f"{count_requests(signed)} passed, as claude-code signs them"
        yield f"{passed}: {remedies.signed} changes that"
    if tally.outgrown:
        yield render_outgrown(tally)
    yield from list_unmaskable(health.unopened, health.unserved)
    if ended.past is not None:
        yield from _render_past(ended.past)
    if ended.lost_network:
        hint = f": {log} may say why" if log else ""
        yield f"pasta ended before the command, which then had no network{hint}"
    if deaths:
        times = "once" if deaths == 1 else f"{deaths} times"
        hint = f", and {log} says why" if log else ""
        yield f"the proxy ended {times} by itself{hint}"
    if tally.count and ended.is_kept and not health.lost_records:
        yield "obsmask page shows each request"


def _render_past(past: Counts) -> Iterator[str]:
    """Yield what a command in a network of its own has done past the proxy."""
    if past.tcp or past.udp:
        kinds = [
            f"{count} {kind}" for kind, count in (("TCP", past.tcp), ("UDP", past.udp)) if count
        ]
        yield f"connections to other ports, past the proxy: {', '.join(kinds)}"
    if past.quic:
        yield f"QUIC refused ({pluralize(past.quic, 'packet')})"


def _explain_unmasked(tally: Tally, health: Health, remedies: Remedies) -> str:
    """Return why nothing was masked, with the option that changes that, if there is one."""
    why = why_nothing_masked(tally)
    if why == PASSED["signed"]:
        hindrance = f", and {remedies.hindrance}" if remedies.hindrance else ""
        why = WhyUnmasked(f"{why.because}{hindrance}", remedies.signed)
    elif remedies.keeps_sockets and why in (PASSED["pass"], PASSED["unknown"]):
        why = WhyUnmasked(why.because, remedies.held)
    elif why == PASSED["unknown"]:
        why = why._replace(command=remedies.held, change=())
    return why.explain(
        advise(Path(health.config)),
        shortens=health.shortens or tally.arrival.is_any,
        has_roads=bool(tell_roads(tally)),
    )
