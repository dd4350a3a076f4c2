"""The configurations that an L2 agent reports, as far as binding needs them.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from attrs import frozen

from netfw.model.values.device_names import check_device_name
from netfw.model.values.json_document import JsonDocument
from netfw.model.values.text_validation import check_socket_path, check_token

KEPT = 256
"""Parsed configurations in the cache, by their text: the hosts of one site have a few."""


@frozen(kw_only=True)
class AgentReport:
    """The parts of an agent's configuration that decide how ports are plugged."""

    physical_networks: frozenset[str]
    egress_kbps: Mapping[str, int]
    """Bandwidth that can be guaranteed to what ports send, by physical network."""
    tunnel_types: frozenset[str]
    interface_types: frozenset[str]
    extensions: frozenset[str]
    bridge: str
    datapath_type: str
    socket_dir: str
    hybrid_plug: bool

    def __attrs_post_init__(self) -> None:
        check_device_name(self.bridge)
        check_token(self.datapath_type)
        if self.socket_dir:
            check_socket_path(f"{self.socket_dir}/vhu12345678-12")


@lru_cache(maxsize=KEPT)
def parse_report(configurations: JsonDocument) -> AgentReport:
    """Parse *configurations*; a missing key counts as empty.

    :raises ValueError: something there is not what agents write.
    """
    content = configurations.content()
    mappings = content.get("bridge_mappings") or {}
    if not isinstance(mappings, Mapping):
        raise ValueError(f"bridge_mappings is {mappings!r}")
    return AgentReport(
        physical_networks=frozenset(mappings),
        egress_kbps=_egress(content, mappings),
        tunnel_types=_words(content, "tunnel_types"),
        interface_types=_words(content, "ovs_capabilities"),
        extensions=_words(content, "extensions"),
        bridge=_text(content, "integration_bridge", "br-int"),
        datapath_type=_text(content, "datapath_type", "system"),
        socket_dir=_text(content, "vhostuser_socket_dir", "").rstrip("/"),
        hybrid_plug=content.get("ovs_hybrid_plug") is True,
    )


def _egress(content: Mapping[str, Any], mappings: Mapping[str, Any]) -> dict[str, int]:
    bandwidths = content.get("resource_provider_bandwidths") or {}
    if not isinstance(bandwidths, Mapping):
        raise ValueError(f"resource_provider_bandwidths is {bandwidths!r}")
    found: dict[str, int] = {}
    for name, bridge in mappings.items():
        rates = bandwidths.get(bridge) or {}
        rate = rates.get("egress") if isinstance(rates, Mapping) else "unknown"
        if rate is not None and not isinstance(rate, int):
            raise ValueError(f"resource_provider_bandwidths is {bandwidths!r}")
        if rate:
            found[name] = rate
    return found


def _words(content: Mapping[str, Any], key: str) -> frozenset[str]:
    found = content.get(key) or []
    if not (isinstance(found, list) and all(isinstance(word, str) for word in found)):
        raise ValueError(f"{key} is {found!r}")
    return frozenset(found)


def _text(content: Mapping[str, Any], key: str, default: str) -> str:
    found = content.get(key)
    if found is None or found == "":
        return default
    if not isinstance(found, str):
        raise ValueError(f"{key} is {found!r}")
    return found
