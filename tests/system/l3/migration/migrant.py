"""An instance that migrates live between hosts, with its port's bindings as a compute service moves
them.

Its interface is a bridge in its namespace, with the device of its host as the only port: so
addresses, neighbours, sockets and processes move with it, and the device alone is exchanged.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from itertools import pairwise
from threading import Thread
from typing import Any

from attrs import frozen

from netfw.cli.demo.server import ServedHost
from netfw.linux.sockets.address_announcement import announce_addresses
from netfw.testing.lab.ini import Groups
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.ping import Ping
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import is_reached
from tests.system.l3.routed_networks import Guest, RoutedNetworks, Segment
from tests.system.pings import pinging_all
from tests.unit.backends.notifiers.http_receiver import Party

Targets = dict[str, tuple[Instance, str]]
ANNOUNCEMENTS = (0, 0.05, 0.15, 0.25, 0.35)
"""Seconds before each announcement of a hypervisor after the last one, as QEMU sends them."""
LONGEST_SILENCE = 0.3
"""Seconds without an answer at the activation, at most, on a machine that keeps up."""
CHANGES = 3
"""On a busy one, as many times an ordinary change of a port at most: it takes the same way, from
the API to the flows of a host, without the move and the pauses between announcements."""
ROUNDS = 8
_BROADCAST = b"\xff" * 6
_RARP = 0x8035
_REVERSE_REQUEST = b"\x00\x01\x08\x00\x06\x04\x00\x03"


@frozen(kw_only=True)
class Migrant(Guest):
    """An instance that can move; the device of a host in its namespace is named after the host."""

    network: Any
    """The client of the network API."""
    compute: Party
    """The compute service, which receives events."""

    def bindings(self) -> dict[str, str]:
        """Return the status of each binding by host."""
        listed = self.network.get(f"/ports/{self.port.id}/bindings").json()["bindings"]
        return {each["host"]: each["status"] for each in listed}

    def plugged_events(self) -> int:
        """Return how often the compute service was notified that the port is plugged."""
        events = (each for body in self.compute.bodies for each in body["events"])
        return sum(
            (each["name"], each["tag"]) == ("network-vif-plugged", self.port.id) for each in events
        )

    def prepare(self, host: ServedHost) -> None:
        """Create an inactive binding on a host, plug the device there, and wait until the compute
        service is notified that it is plugged."""
        before = self.plugged_events()
        body = {"binding": {"host": host.host.name, "vnic_type": "normal", "profile": {}}}
        answer = self.network.post(f"/ports/{self.port.id}/bindings", json=body)
        assert answer.status_code in (200, 201), answer.text
        name = f"{self.instance.name}-at-{host.host.name}-{time.monotonic_ns()}"
        plugged = host.plug_port(self.port, name, addressed=False)
        namespace = f"/proc/{os.getpid()}/fd/{self.instance.namespaces.spaces['net']}"
        plugged.namespaces.ip(
            "link set eth0 down", f"link set eth0 netns {namespace} name {nic(host)}"
        )
        wait_until(lambda: self.plugged_events() > before, "network-vif-plugged")

    def move(self, source: ServedHost, target: ServedHost) -> None:
        """Exchange the device at once: the instance runs at the target now."""
        self.instance.namespaces.ip(
            f"link set {nic(target)} up",
            f"link set {nic(target)} master eth0",
            f"link set {nic(source)} nomaster",
            f"link set {nic(source)} down",
        )

    def activate(self, host: ServedHost) -> None:
        """Activate the binding of a host."""
        path = f"/ports/{self.port.id}/bindings/{host.host.name}/activate"
        answer = self.network.put(path)
        assert answer.status_code == 200, answer.text

    def drop(self, host: ServedHost) -> None:
        """Unplug the device on a host that the instance is not on, and delete its binding."""
        host.unplug_port(self.port)
        self.instance.namespaces.ip(f"link delete {nic(host)}")
        answer = self.network.delete(f"/ports/{self.port.id}/bindings/{host.host.name}")
        assert answer.status_code == 204, answer.text

    @contextmanager
    def announcing(self) -> Iterator[None]:
        """Announce the instance as a hypervisor does, from now on; wait for it at the end."""
        thread = Thread(target=self.instance.call, args=(_announce, self.port.mac_address))
        thread.start()
        try:
            yield
        finally:
            thread.join()

    def migrate(self, source: ServedHost, target: ServedHost) -> None:
        """Move the instance, and activate its binding at the target."""
        self.move(source, target)
        with self.announcing():
            self.activate(target)

    def measure(self, source: ServedHost, target: ServedHost, flows: Targets) -> dict[str, float]:
        """Migrate to a prepared host under pings; return the seconds that each flow is silent."""
        with pinging_all(flows) as pings:
            time.sleep(0.3)
            self.migrate(source, target)
            for name, (instance, address) in flows.items():
                wait_until(lambda i=instance, a=address: is_reached(i, a), name)
            return {name: longest_silence(ping) for name, ping in pings.stop().items()}


@frozen(kw_only=True)
class Beside:
    """An instance beside the migration, on one of its hosts, and the address of its gateway."""

    network: Any
    """The client of the network API."""
    guest: Guest
    gateway: str

    def measure_change(self) -> float:
        """Take the port down and up; return the seconds from the request until it has traffic."""
        instance, gateway = self.guest.instance, self.gateway
        self.network.update_port(self.guest.port, is_admin_state_up=False)
        wait_until(lambda: not is_reached(instance, gateway))
        with pinging_all({"beside": (instance, gateway)}) as pings:
            began = time.monotonic()
            self.network.update_port(self.guest.port, is_admin_state_up=True)
            wait_until(lambda: is_reached(instance, gateway))
            return answers(pings.stop()["beside"])[0] - began


def measure_best(
    migrant: Migrant,
    hosts: tuple[ServedHost, ServedHost],
    flows: Targets,
    beside: Beside,
    switches: Sequence[ServedHost],
    *,
    await_prepared: Callable[[ServedHost], None] = lambda host: None,
) -> tuple[dict[str, float], float]:
    """Migrate from the first host to the second and back; return the longest silence of each flow,
    and what it may be.

    On a busy machine the best of some rounds counts, in each direction.
    """
    best: dict[str, dict[str, float]] = {}
    change = 0.0
    for _ in range(ROUNDS):
        for source, target in (hosts, hosts[::-1]):
            migrant.prepare(target)
            await_prepared(target)
            _purge_cached_flows(switches)
            found = migrant.measure(source, target, flows)
            former = best.get(target.host.name, found)
            best[target.host.name] = {name: min(found[name], former[name]) for name in flows}
            assert migrant.bindings() == {source.host.name: "INACTIVE", target.host.name: "ACTIVE"}
            migrant.drop(source)
            assert migrant.bindings() == {target.host.name: "ACTIVE"}
        longest = {name: max(each[name] for each in best.values()) for name in flows}
        if max(longest.values()) <= max(LONGEST_SILENCE, CHANGES * change):
            break
        _purge_cached_flows(switches)
        measured = beside.measure_change()
        change = min(change, measured) if change else measured
    return longest, max(LONGEST_SILENCE, CHANGES * change)


def _purge_cached_flows(switches: Iterable[ServedHost]) -> None:
    """Have the switches learn at once, or some learn from announcements half a second later."""
    for each in switches:
        each.host.ovs.appctl("revalidator/purge")


def nic(host: ServedHost) -> str:
    """Return the name of the device of a host in the namespace of an instance."""
    return f"nic-{host.host.name}"


def longest_silence(ping: Ping) -> float:
    """Return the longest time between two answers: answers that are late count like lost ones."""
    gaps = (later - earlier for earlier, later in pairwise(answers(ping)))
    return max(gaps, default=float("inf"))


def answers(ping: Ping) -> list[float]:
    """Return the times of the answers."""
    sent = zip(ping.sent_at, ping.times, strict=True)
    return sorted(at + took for at, took in sent if took is not None)


def notifying(compute: Party) -> Groups:
    """Return the options of a server that notifies a compute service."""
    return {
        "DEFAULT": {"notifiers": "compute"},
        "compute": {"endpoint": compute.url, "auth": "none"},
    }


def make_migrant(
    site: RoutedNetworks, name: str, segment: Segment, host: ServedHost, compute: Party
) -> Migrant:
    """Run an instance that can move, with addresses and routes."""
    port = site.network.create_port(
        network_id=segment.network.id, name=name, binding_host_id=host.host.name,
        device_id=f"vm-{name}", device_owner="compute:nova",
        port_security_enabled=False, security_groups=[],
    )  # fmt: skip
    instance = host.plug_port(port, name, addressed=False)
    made = Migrant(port=port, instance=instance, network=site.network, compute=compute)
    instance.namespaces.ip(
        f"link set eth0 name {nic(host)}",
        f"link add eth0 address {port.mac_address} type bridge forward_delay 0 mcast_snooping 0",
        "link set eth0 mtu 1450",
        f"link set {nic(host)} up",
        f"link set {nic(host)} master eth0",
    )
    addresses = [f"{made.address(4)}/24", f"{made.address(6)}/64"]
    instance.configure(addresses, [segment.v4.gateway_ip, segment.v6.gateway_ip])
    wait_until(lambda: is_reached(instance, segment.v4.gateway_ip))
    # Neighbours may know the address from an instance that had it before.
    instance.call(announce_addresses, "eth0", [ip_address(made.address(4))])
    return made


def to_migrant(guests: Mapping[str, Guest], migrant: Migrant) -> Targets:
    """Return flows of both IP versions from guests to an instance."""
    return {
        f"{name} IPv{version}": (guest.instance, migrant.address(version))
        for name, guest in guests.items()
        for version in (4, 6)
    }


def _announce(mac: str) -> None:
    """Send the announcements of a hypervisor: reverse ARP requests with the MAC address alone."""
    address = bytes.fromhex(mac.replace(":", ""))
    body = _REVERSE_REQUEST + address + bytes(4) + address + bytes(4)
    frame = _BROADCAST + address + _RARP.to_bytes(2) + body
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("eth0", 0))
        for pause in ANNOUNCEMENTS:
            time.sleep(pause)
            sender.send(frame.ljust(60, b"\0"))
