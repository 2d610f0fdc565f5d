"""The documented configuration of Envoy, before a provider in plain HTTP on loopback."""

from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml import YAML

from addon.gateways.envoy.launch import write_envoy_config


def write_plain_config(folder: Path, services: Sequence[int], provider: int) -> Path:
    """Write it for services at these ports of loopback; without any, for an Envoy alone."""
    path = write_envoy_config(folder, services or [0], provider, folder)
    yaml = YAML()
    config = yaml.load(path)
    resources = config["static_resources"]
    for cluster in resources["clusters"]:
        cluster.pop("transport_socket", None)
    if not services:
        del resources["clusters"][0]
        (listener,) = resources["listeners"]
        manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
        del manager["http_filters"][0]
        for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
            del route["typed_per_filter_config"]
    yaml.dump(config, path)
    return path
