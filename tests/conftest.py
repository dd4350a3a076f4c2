"""Mark tests by folder, so that each step of `make test` selects by marker and none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

MARKED_FOLDERS = {
    "lab/agents/dhcp": "services",
    "lab/agents/metadata": "services",
    "lab/backends/dnsmasq": "services",
    "lab/backends/haproxy": "services",
    "lab/backends/transports": "server",
    "lab/linux/service_netns": "services",
    "lab/server": "server",
}
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for folder, mark in MARKED_FOLDERS.items():
            if item.path.is_relative_to(_HERE / folder):
                item.add_marker(mark)
