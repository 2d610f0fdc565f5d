"""Runs mitmdump with the addon in this process: on loopback, into the network that it finds.

`python -m addon.proxy.serve` is the proxy that another process starts; it ends, as if told to, when
its standard input does. What it finds is in the environment: a proxy that was set already, and the
authorities that the user trusts. Neither is ever on a command line, which every user can read.
"""

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mitmproxy import ctx
from mitmproxy.master import Master
from mitmproxy.options import Options
from mitmproxy.proxy.mode_specs import ProxyMode, RegularMode
from mitmproxy.tools import cmdline
from mitmproxy.tools.dump import DumpMaster
from mitmproxy.tools.main import run

from addon.network import Address
from addon.proxy.authorities import upstream_bundle
from addon.proxy.launch import ADDON, HOST
from addon.proxy.network import find_upstream
from addon.proxy.upstream import Upstream
from addon.proxy.upstream_routes import UpstreamRoutes


def serve(arguments: Sequence[str], *addons: object) -> None:
    """Run the proxy until it is told to end; `arguments` are mitmdump's, and hold where given.

    Raises ValueError and OSError if the environment names a proxy or an authority that cannot be
    used, and SystemExit, after a line on standard error, if an argument cannot.
    """
    bundle = upstream_bundle()

    def find_options(arguments: Namespace) -> dict[str, Any]:
        upstream = _find_upstream(ctx.options)
        routes = [UpstreamRoutes(upstream)] if upstream else []
        ctx.master.addons.add(*routes, *addons)
        return _find_options(arguments, ctx.options, upstream, bundle)

    run(DumpMaster, cmdline.mitmdump, ["-s", str(ADDON), *arguments], find_options)


def _find_upstream(options: Options) -> Upstream | None:
    """Return the proxy that is to come behind ours; None in other modes than a plain proxy's."""
    modes = [mode for mode in map(_read_mode, options.mode) if mode]
    if not any(isinstance(mode, RegularMode) for mode in modes):
        return None
    own = [Address(HOST, mode.listen_port(options.listen_port) or 0) for mode in modes]
    return find_upstream(os.environ, own)


def _read_mode(text: str) -> ProxyMode | None:
    try:
        return ProxyMode.parse(text)
    except ValueError:  # of which mitmproxy will complain
        return None


def _find_options(
    arguments: Namespace, options: Options, upstream: Upstream | None, bundle: Path
) -> dict[str, Any]:
    """Return what mitmdump is told beside its arguments; nothing that they, or its file, say."""
    found: dict[str, Any] = {}
    if not options.listen_host:
        found["listen_host"] = HOST
    if arguments.flow_detail is None and not _is_set("flow_detail", arguments, options):
        found["flow_detail"] = 0  # its own line for each request has the whole URL
    if not options.ssl_verify_upstream_trusted_ca:
        found["ssl_verify_upstream_trusted_ca"] = str(bundle)
    if upstream:
        found["mode"] = [_put_behind(upstream, mode) for mode in options.mode]
    if arguments.filter_args:  # as mitmdump itself has it
        names = ("save_stream_filter", "readfile_filter", "dumper_filter")
        found |= dict.fromkeys(names, " ".join(arguments.filter_args))
    return found


def _is_set(name: str, arguments: Namespace, options: Options) -> bool:
    is_given = any(each.partition("=")[0] == name for each in arguments.setoptions)
    return is_given or options.has_changed(name)


def _put_behind(upstream: Upstream, mode: str) -> str:
    """Return a mode with the proxy behind ours, listening where it did; a reverse one stays."""
    if not isinstance(_read_mode(mode), RegularMode):
        return mode
    _, at, place = mode.partition("@")
    return f"upstream:{upstream.url}{at}{place}"


class EndWithInput:
    """Ends the proxy when standard input ends: whoever started it and held it open is gone."""

    def running(self) -> None:
        # A thread that waits costs the loop nothing, and works wherever there are pipes.
        threading.Thread(target=self._wait, args=(ctx.master,), daemon=True).start()

    def _wait(self, master: Master) -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 4096):
                pass
        with suppress(RuntimeError):  # it has ended already
            master.shutdown()


if __name__ == "__main__":
    try:
        serve(sys.argv[1:], EndWithInput())
    except (OSError, ValueError) as error:
        sys.exit(f"obsmask: {error}")
