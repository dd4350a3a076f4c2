"""The machines around the router of the demo."""

from __future__ import annotations

import socket
from typing import Any

from attrs import define

from netfw.cli.demo.agents import becomes_true
from netfw.cli.demo.server import Cloud
from netfw.cli.demo.tcp import arrives
from netfw.testing.lab.instance import Instance


@define
class RoutedSite:
    """Two networks with an instance each, a router, and a machine outside the cloud.

    All three machines listen at port 80.
    """

    cloud: Cloud
    router: Any
    world: Instance
    amber: Instance
    violet: Instance
    listeners: dict[str, socket.socket]

    @property
    def gateway(self) -> str:
        """The address of the router on the outside network."""
        fixed_ips = self.router.external_gateway_info["external_fixed_ips"]
        return str(fixed_ips[0]["ip_address"])

    def reaches(self, address: str, name: str) -> bool:
        """Return whether the world soon reaches instance *name* at *address*."""
        return becomes_true(lambda: arrives(self.world, address, self.listeners[name]))
