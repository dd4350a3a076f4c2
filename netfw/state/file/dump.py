"""Rendering of items as the content of a topology file.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netfw.drivers.values.subscription import Service
from netfw.model.floating_ip import FloatingIp
from netfw.model.resource import Kind, kind_of
from netfw.model.wire import render
from netfw.state.dependencies import Assignment, Item
from netfw.state.file.schema import ASSIGNMENTS, SECTIONS

_NAMES: dict[Kind, str] = {kind: name for name, kind in SECTIONS.items()}


def render_topology(items: Iterable[Item]) -> dict[str, list[dict[str, Any]]]:
    """Render *items* in full as the content of a file, for programs that write JSON or YAML."""
    document: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        if isinstance(item, Assignment):
            document.setdefault(ASSIGNMENTS, []).append(_assignment(item))
        else:
            body = render(item)
            if isinstance(item, FloatingIp):
                body.setdefault("host", None)  # left out, it would be derived
            document.setdefault(_NAMES[kind_of(item)], []).append(body)
    return document


def _assignment(assignment: Assignment) -> dict[str, Any]:
    target = "network_id" if assignment.service is Service.DHCP else "router_id"
    return {
        "service": assignment.service.value,
        "host": assignment.host,
        target: str(assignment.ref.id),
    }
