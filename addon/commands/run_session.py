"""What `obsmask run` holds while its command runs: a proxy of its own, or one that was running."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from addon.commands.claude_code import BASE_URL, find_places, find_problem, plan
from addon.commands.run_line import Remedies, render_end
from addon.metrics.record_reader import read_records
from addon.metrics.tally import Tally
from addon.network import Address
from addon.places import state_folder
from addon.proxy.authorities import user_bundle
from addon.proxy.base_urls import VENDOR, Server, behind, point_at
from addon.proxy.environment import client_environment
from addon.proxy.health_check import Health, check_health
from addon.proxy.network import find_upstream
from addon.proxy.proxy_process import ProxyProcess
from addon.proxy.run_logs import open_log
from addon.recall import FOLDER_VARIABLE

_MAX_RESTARTS = 20

_CLAUDE = "obsmask run -- claude"
_CLIENT_CHANGES = "obsmask run --client-changes"
_NOT_AS_IT_IS = "obsmask run without --as-it-is"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a proxy of its own is to be like, and what is run behind it.

    command: what is run.
    arguments: mitmdump's, beside those that say where it listens.
    reverse: the server to which the clients' base URLs are to lead by way of it.
    changes_client: whether all clients of a WebSocket are sent to HTTP.
    as_it_is: whether nothing about the client is changed.
    """

    command: Sequence[str]
    arguments: Sequence[str]
    reverse: Server | None = None
    changes_client: bool = False
    as_it_is: bool = False


class OwnProxy:
    """A proxy that starts and ends with the command. Should it die, it is started again.

    Raises OSError, ValueError if the environment names a proxy that cannot come behind it, and
    RuntimeError if the proxy does not start.
    """

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        find_upstream(os.environ)  # what is wrong there is said before anything starts
        bundle, state = user_bundle(), state_folder()
        self._proxy = ProxyProcess(
            wishes.arguments,
            folder=state,
            log=open_log(state),
        )
        self._healths = [self._proxy.start()]
        self._deaths = 0
        base_urls = self._find_base_urls()
        before = {**os.environ, **base_urls}
        self.plan = None
        if not wishes.as_it_is:
            proxy = (self._proxy.address, self._healths[-1])
            self.plan = plan(wishes.command, before, find_places(before), *proxy)
        self.command = self.plan.command if self.plan else wishes.command
        changes = {**base_urls, **(self.plan.variables if self.plan else {})}
        self.environment = {
            **os.environ,
            **client_environment(self._proxy.address.url, bundle, os.environ, changes),
            **_lead_to_recall(self._healths[-1]),
        }

    def __enter__(self) -> "OwnProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._proxy.stop()

    @property
    def page(self) -> str | None:
        """Where the live page is; None if there is none."""
        return self._healths[-1].page

    def notice_end(self, process: int) -> None:
        """Start the proxy again, if it is what has ended."""
        if not self._proxy.forget(process):
            return
        self._deaths += 1
        if self._deaths <= _MAX_RESTARTS:
            with contextlib.suppress(RuntimeError):  # the log says why, and the last line names it
                self._healths.append(self._proxy.start())

    def finish(self) -> str:
        """End the proxy, and return in a line what the run came to."""
        last = _check(self._proxy.address) or self._healths[-1]
        self._proxy.stop()
        tally = _count(last.records, {health.run for health in self._healths}, None)
        return render_end(
            tally,
            last,
            self._find_remedies(),
            deaths=self._deaths,
            log=self._proxy.log,
        )

    def _find_remedies(self) -> Remedies:
        if self._wishes.as_it_is:
            return Remedies(_NOT_AS_IT_IS, _NOT_AS_IT_IS, keeps_sockets=True)
        held = None if self._wishes.changes_client else _CLIENT_CHANGES
        if self.plan is None:
            return Remedies(_CLAUDE, held)
        return Remedies(None, held, self.plan.hindrance)

    def _find_base_urls(self) -> Mapping[str, str]:
        server = self._wishes.reverse
        return point_at(self._proxy.address, server, os.environ) if server else {}


class RunningProxy:
    """A proxy that runs already, for whomever. Raises RuntimeError if there is none."""

    def __init__(self, address: Address, command: Sequence[str], *, as_it_is: bool) -> None:
        health = _check(address)
        if health is None:
            raise RuntimeError(
                f"no proxy with the addon answers at {address.url}: obsmask proxy starts one"
            )
        self._address, self._since, self._health = address, datetime.now(UTC), health
        self.plan = None
        if not as_it_is:
            self.plan = plan(command, os.environ, find_places(os.environ), address, health)
        self.command = self.plan.command if self.plan else command
        changes = self.plan.variables if self.plan else {}
        told = client_environment(address.url, user_bundle(), os.environ, changes)
        self.environment = {**os.environ, **told, **_lead_to_recall(health)}

    def __enter__(self) -> "RunningProxy":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def page(self) -> str | None:
        """Where the live page is; None if there is none."""
        return self._health.page

    def notice_end(self, process: int) -> None:
        pass

    def finish(self) -> str:
        """Return in a line what passed the proxy while the command ran, whoever sent it."""
        health = _check(self._address) or self._health
        tally = _count(health.records, {self._health.run}, self._since)
        line = render_end(tally, health, self._find_remedies(), deaths=0, log=None)
        return f"through {self._address.url} meanwhile: {line}"

    def _find_remedies(self) -> Remedies:
        if self.plan is not None:
            return Remedies(hindrance=self.plan.hindrance)
        if find_problem(self._address, self._health):
            return Remedies()
        return Remedies(f"{BASE_URL}={behind(self._address, VENDOR)} in its environment")


def _lead_to_recall(health: Health) -> Mapping[str, str]:
    """Return what leads the agent's `obsmask recall` to the proxy's folder, if it has one."""
    return {FOLDER_VARIABLE: health.recall_folder} if health.recall_folder else {}


def _check(address: Address) -> Health | None:
    try:
        return check_health(address)
    except OSError:
        return None


def _count(path: str | None, runs: set[str], since: datetime | None) -> Tally:
    tally = Tally()
    with contextlib.suppress(OSError):  # what could not be written cannot be read: the proxy knows
        for record in read_records(Path(path), since) if path else ():
            if record.run in runs:
                tally.add(record)
    return tally
