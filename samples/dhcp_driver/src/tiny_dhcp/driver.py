"""TinyDhcpDriver: a namespace, a device and a process per network, and a file per port.

A network is a directory.  In it a port is a file ``<port>.json``, and a link to it is named by the
MAC address of the port.  The server follows that link for each request.  The files are the whole
state: nothing has to be reloaded, and nothing is lost when a process dies.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import UUID

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.dhcp import (
    DhcpCapability,
    DhcpDriver,
    DhcpKey,
    DhcpLocation,
    DhcpNetwork,
    DhcpPort,
    DhcpValue,
    ServerPort,
)
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.support.unsupported_dhcp import restrict_network, restrict_port
from netfw.drivers.values.events import Event, FeedLost, KeysChanged, ProcessDied, Sink
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import BackendBroken, BackendUnavailable, NetfwError
from netfw.linux import process
from netfw.linux.process import ProcessKey, Program, Supervisor
from netfw.linux.service_netns import ServiceNetns, ServiceNetnsExecutor
from netfw.model import NetworkId, PortId
from netfw.model.values.device_names import dhcp_namespace
from netfw.plan import Outcome, Update
from tiny_dhcp.offers import check_network, offers

SERVER = "server"
"""Name of the file with the id of the port from which a network is served."""


class TinyDhcpDriver(DhcpDriver):
    """DHCP for IPv4 by :mod:`tiny_dhcp.server`."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt("directory", default="/run/tiny-dhcp", help="Directory of networks and ports."),
        cfg.IntOpt("lease", default=86400, min=120, help="Lease time in seconds."),
    )

    def __init__(self, directory: Path, lease: int, interface: InterfaceDriver) -> None:
        self._home, self._lease, self._interface = directory / "networks", lease, interface
        self._namespaces = ServiceNetnsExecutor(interface)
        self._processes = Supervisor(directory / "processes", self._handle_process_event)
        self._sink: Sink = lambda event: None
        self._networks: dict[NetworkId, DhcpNetwork] = {}
        self._ports: dict[PortId, DhcpPort] = {}

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        return cls(Path(options["directory"]), options["lease"], host.driver(InterfaceDriver))

    def describe(self) -> DriverInfo[HostCapability | DhcpCapability]:
        return DriverInfo("tiny-dhcp", {HostCapability.WATCH})

    def location(self, network: NetworkId, server: ServerPort) -> DhcpLocation:
        device = self._interface.device_name(server.id)
        return DhcpLocation(netns=dhcp_namespace(network), device=device)

    def watch(self, sink: Sink) -> None:
        self._sink = sink
        self._interface.watch(self._handle_device_event)

    def close(self) -> None:
        self._sink = lambda event: None
        self._processes.close()

    def present(self) -> frozenset[DhcpKey]:
        running = self._processes.present()
        running_networks = [
            network for network in self._stored_networks() if _process(network) in running
        ]
        return frozenset(key for network in running_networks for key in self._keys(network))

    def converge(self, update: Update[DhcpKey, DhcpValue]) -> Outcome[DhcpKey]:
        failed: dict[DhcpKey, NetfwError] = {}
        waiting: dict[DhcpKey, str] = {}
        garbage = self._garbage(update) if update.complete else ()
        networks_first = sorted(update.put, key=lambda key: isinstance(key, PortKey))
        for key in (*update.drop, *garbage, *networks_first):
            try:
                self._converge_key(key, update.put.get(key), waiting)
            except BackendUnavailable:
                raise
            except NetfwError as error:
                failed[key] = error
            except OSError as error:
                failed[key] = BackendBroken(f"{error}; check the directory of tiny-dhcp")
        done = frozenset(key for key in update if key not in failed and key not in waiting)
        return Outcome(done=done, failed=failed, waiting=waiting)

    def _converge_key(
        self, key: DhcpKey, value: DhcpValue | None, waiting: dict[DhcpKey, str]
    ) -> None:
        match key, value:
            case NetworkKey(network), DhcpNetwork():
                served, unsupported = restrict_network(value)
                self._serve(network, served)
                if unsupported.error is not None:
                    raise unsupported.error
            case NetworkKey(network), _:
                self._stop(network)
            case PortKey(port), DhcpPort():
                available, unsupported = restrict_port(value)
                if not self._write_port(port, available):
                    waiting[key] = f"network {value.network} is not served here"
                elif unsupported.error is not None:
                    raise unsupported.error
            case PortKey(port), _:
                self._remove_port(port)

    def _garbage(self, update: Update[DhcpKey, DhcpValue]) -> frozenset[DhcpKey]:
        """Return the keys with a file, and the waiting ports, that *update* leaves out."""
        stored = {key for network in self._stored_networks() for key in self._keys(network)}
        return frozenset(stored | set(map(PortKey, self._ports))) - update.put.keys() - update.keep

    # Networks.

    def _serve(self, id: NetworkId, network: DhcpNetwork) -> None:
        """Make the directory of a network, then the rest; removal is in reverse order.

        A crash in between leaves no namespace or process without a directory.
        """
        check_network(network)
        location = self.location(id, network.server)
        folder = self._home / str(id)
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / SERVER, str(network.server.id))
        wanted = ServiceNetns(
            netns=location.netns,
            port=network.server.id,
            device=location.device,
            mac=network.server.mac,
            mtu=network.mtu,
            addresses=network.addresses,
            gateways=network.gateways,
        )
        self._namespaces.make(wanted)
        argv = (sys.executable, "-m", "tiny_dhcp.server", str(folder))
        program = Program(argv=argv, namespace=location.netns, ready=_listens)
        self._processes.start(_process(id), program)
        self._networks[id] = network
        for port, value in tuple(self._ports.items()):
            if value.network == id:
                self._write_port(port, value)

    def _stop(self, id: NetworkId) -> None:
        self._networks.pop(id, None)
        folder = self._home / str(id)
        if not folder.exists():
            return
        self._processes.stop(_process(id))
        server = folder / SERVER
        port = PortId(UUID(server.read_text())) if server.exists() else None
        self._namespaces.remove(dhcp_namespace(id), port)
        shutil.rmtree(folder)

    def _stored_networks(self) -> list[NetworkId]:
        return [NetworkId(UUID(folder.name)) for folder in self._home.glob("*")]

    def _keys(self, network: NetworkId) -> list[DhcpKey]:
        """Return the keys of a network and its ports."""
        files = (self._home / str(network)).glob("*.json")
        return [NetworkKey(network), *(PortKey(PortId(UUID(file.stem))) for file in files)]

    def _handle_process_event(self, event: Event) -> None:
        if isinstance(event, process.ProcessExited):
            network = NetworkId(UUID(event.key.id))
            self._sink(ProcessDied(event.reason, [NetworkKey(network)]))

    def _handle_device_event(self, event: Event) -> None:
        """Report each network whose device changed, as after a restart of the switch."""
        if isinstance(event, FeedLost):
            self._sink(event)
        elif isinstance(event, KeysChanged):
            served = tuple(self._networks.items())
            keys = [NetworkKey(id) for id, value in served if value.server.id in event.keys]
            if keys:
                self._sink(KeysChanged("their devices changed", keys))

    # Ports.

    def _write_port(self, id: PortId, port: DhcpPort) -> bool:
        """Write the file of a port; return false if the port waits for its network."""
        network = self._networks.get(port.network)
        if network is not None:
            text = json.dumps({"mac": port.mac, "offers": offers(port, network, self._lease)})
            file = self._home / str(port.network) / f"{id}.json"
            _unlink(file, keep=port.mac)
            _write(file, text)
            _link(file, port.mac)
        self._ports[id] = port
        return network is not None

    def _remove_port(self, id: PortId) -> None:
        self._ports.pop(id, None)
        for file in self._home.glob(f"*/{id}.json"):
            _unlink(file)
            file.unlink()


def _process(network: NetworkId) -> ProcessKey:
    return ProcessKey("tiny-dhcp", str(network))


def _listens(pid: int) -> bool:
    return ":0043 " in Path(f"/proc/{pid}/net/udp").read_text()


def _write(file: Path, text: str) -> None:
    """Replace *file* atomically: a reader sees the old text or the new one."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def _link(file: Path, mac: str) -> None:
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    new.symlink_to(file.name)
    new.replace(file.with_name(str(mac)))


def _unlink(file: Path, keep: str = "") -> None:
    """Remove the link to a port's file, unless it is *keep* or points to another port."""
    if not file.exists():
        return
    link = file.with_name(json.loads(file.read_text())["mac"])
    if link.name != keep and link.is_symlink() and os.readlink(link) == file.name:
        link.unlink()
