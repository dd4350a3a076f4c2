"""An interface driver of each way of plugging, on a switch of the test's own."""

from __future__ import annotations

from tests.lab.linux.service_netns.conftest import interface, ovsdb

__all__ = ["interface", "ovsdb"]
