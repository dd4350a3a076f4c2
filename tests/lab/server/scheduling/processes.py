"""What several server processes do for agents and devices at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from netfw.drivers.server.change import Change
from netfw.drivers.values.agent_requests import EnsureDhcpPort, EnsureHostMac
from netfw.model.values.ids import NetworkId, SubnetId
from netfw.server.agents.rpc_handlers import AgentRpcHandlers
from netfw.server.core.server_context import ServerContext
from netfw.server.db import Database
from netfw.server.ml2.builder import Core, Drivers, build_core
from netfw.server.ml2.plugin import Ml2Plugin
from netfw.server.outbox.worker import DeliveryConfig
from netfw_drivers.ipam.internal import InternalIpamDriver
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import settings, type_drivers
from tests.server.outbox.samples import OutboxEnvironment, Recorder


def core_of(url: str, **options: Any) -> tuple[Core, Ml2Plugin]:
    """Return the core and the plugin of a server process."""
    drivers = Drivers(ipam=InternalIpamDriver(), types=type_drivers())
    core = build_core(Database(url), drivers, settings(**options))
    plugin = Ml2Plugin(core.context, core.handlers())
    core.context.start()
    return core, plugin


def register_agents(url: str, seed: int) -> None:
    """Register the same new agents as other processes do, and reconcile their assignments."""
    core, _ = core_of(url)
    for host in "abcde":
        core.agent_services.agents([beat(host, "DHCP agent")])
    core.agent_services.rescheduler.reconcile()
    core.context.database.close()


def ask_for_ports(url: str, network: NetworkId, subnet: SubnetId, seed: int) -> tuple[str, str]:
    """Ask for the DHCP port and the MAC address of one host."""
    core, _ = core_of(url)
    answers = AgentRpcHandlers(core.context)
    asked = EnsureDhcpPort(network=network, host="h", subnets=frozenset({subnet}))
    port = answers.ensure_dhcp_port(asked)
    mac = answers.ensure_host_mac(EnsureHostMac("h"))
    core.context.database.close()
    return str(port.id), str(mac)


class Diary(Recorder):
    """Writes down what it is told, when it begins and when it has ended, in a file."""

    def __init__(self, file: Path, seed: int, timeout: float) -> None:
        super().__init__()
        self._file, self._seed, self._timeout = file, seed, timeout

    def deliver(self, change: Change) -> None:
        network = change.network.id if change.network else ""
        what = f"{network} {change.ref.kind} {change.revision}"
        self._write(f"begin {self._seed} {what}")
        time.sleep(self._timeout)
        self._write(f"end {self._seed} {what}")

    def _write(self, text: str) -> None:
        with self._file.open("a", encoding="utf-8") as diary:
            diary.write(text + "\n")


def make_environment(
    url: str, file: Path, seed: int, timeout: float, lease: float
) -> OutboxEnvironment:
    """Return a server process that records its deliveries in a file."""
    context = ServerContext(database=Database(url), ipam=InternalIpamDriver())
    pace = DeliveryConfig(poll=0.05, lease=lease, first_pause=0.05, longest_pause=0.2)
    return OutboxEnvironment(context, Diary(file, seed, timeout), pace=pace)


def deliver_for_ever(url: str, file: Path, seed: int, timeout: float, lease: float) -> None:
    """Deliver until killed."""
    make_environment(url, file, seed, timeout, lease).delivery.start()
    time.sleep(120)
