"""Provider attributes and segments of a network, as the API shows them."""

from __future__ import annotations

from typing import Any

from tests.server.core.core_client import (
    Calls,
)


def provider(network: dict[str, Any]) -> tuple[Any, Any, Any]:
    names = ("network_type", "physical_network", "segmentation_id")
    return tuple(network[f"provider:{name}"] for name in names)


def segments(calls: Calls, network: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("network_type", "physical_network", "segmentation_id")
    found = calls.all("segment", network_id=network["id"])
    return sorted(tuple(each[name] for name in names) for each in found)
