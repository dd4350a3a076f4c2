"""An interface driver of each way of plugging, on a switch of the test's own."""

from __future__ import annotations

import pytest

from netfw.linux.router_netns import RouterNetnsExecutor
from tests.lab.linux.service_netns.conftest import interface, ovsdb

__all__ = ["executor", "interface", "ovsdb"]


@pytest.fixture
def executor(interface) -> RouterNetnsExecutor:
    return RouterNetnsExecutor(interface, "l3")
