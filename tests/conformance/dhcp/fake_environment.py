"""The environment of fake DHCP drivers: two hosts, and clients."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, IPv6Network
from typing import ClassVar

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver
from netfw.model.values.address import eui64
from netfw.testing.conformance.dhcp.environment import DhcpClientVm, DhcpEnvironment, FoundServer
from netfw.testing.conformance.dhcp.leases import CLIENT_ID, IPXE
from netfw.testing.lab.dhcp_lease import ClientLease, Lease6
from tests.conformance.dhcp.fake_dhcp import FakeDhcpDriver
from tests.conformance.dhcp.fake_dhcp_backend import FakeDhcpBackend


class FakeDhcpClient(DhcpClientVm):
    def __init__(self, backends, network, mac):
        self.backends, self.network, self.mac = backends, network, mac
        self.has: ClientLease | None = None
        self.booted: ClientLease | None = None
        self.has6: Lease6 | None = None

    def offers(self, sent_options=None):
        for backend in self.backends:
            for serving, entry in backend.entries(self.network, self.mac):
                for lease in entry.ipxe if sent_options and IPXE in sent_options else entry.leases:
                    if serving.leases.get(lease.ip, self.mac) == self.mac:
                        yield serving, lease

    def ask(self, sent_options=None):
        if "ids" in self.backends[0].faults and sent_options and CLIENT_ID in sent_options:
            return None
        for serving, lease in self.offers(sent_options):
            serving.leases[lease.ip] = self.mac
            return evolve(lease, options=dict(lease.options))
        return None

    def ask_again(self, former: ClientLease, server=None):
        for serving, lease in self.offers():
            mine = lease.ip == former.ip and serving.leases.get(lease.ip) == self.mac
            if mine and server in (None, lease.server):
                return lease
        return None

    def lease(self, requested=(), *, sent_options=None, expected=True):
        self.has = self.ask(sent_options)
        return self.has

    def renew(self):
        assert self.has is not None
        return self.ask_again(self.has, self.has.server)

    def release(self):
        for serving, lease in self.offers():
            if lease == self.has:
                serving.leases.pop(lease.ip, None)

    def leave(self):
        self.has = self.has6 = None

    def boot(self, requested=()):
        if self.booted is not None:
            for backend in self.backends:
                for serving, lease in self.offers():
                    if lease.ip == self.booted.ip and "forgetful" not in backend.faults:
                        serving.leases.setdefault(lease.ip, self.mac)
            return self.ask_again(self.booted)
        self.booted = self.ask()
        return self.booted

    def announcement(self, *, expected=True):
        for backend in self.backends:
            serving = backend.nets.get(self.network)
            if serving is not None and serving.alive and serving.announcement:
                return serving.announcement
        return None

    def made_addresses(self, prefix_of: IPv6Address):
        announcement = self.announcement()
        blocks = [
            block for block, made in (announcement.prefixes if announcement else {}).items() if made
        ]
        return frozenset(eui64(IPv6Network(block), self.mac) for block in blocks)

    def lease6(self, *, stateless=False, expected=True):
        for backend in self.backends:
            for serving, entry in backend.entries(self.network, self.mac):
                lease = entry.lease6
                if lease is None:
                    continue
                if stateless:
                    return evolve(lease, addresses=())
                if lease.addresses and serving.leases.get(lease.addresses[0], self.mac) == self.mac:
                    serving.leases[lease.addresses[0]] = self.mac
                    self.has6 = lease
                    return lease
        return None

    def renew6(self):
        assert self.has6 is not None
        for backend in self.backends:
            for serving, _ in backend.entries(self.network, self.mac):
                if serving.leases.get(self.has6.addresses[0]) == self.mac:
                    return self.has6
        return None

    def release6(self):
        assert self.has6 is not None
        for backend in self.backends:
            for serving in backend.nets.values():
                serving.leases.pop(self.has6.addresses[0], None)


class FakeDhcpEnvironment(DhcpEnvironment):
    timeout: ClassVar[float] = 0.05

    def __init__(self, kind: type[FakeDhcpDriver]):
        self.kind = kind
        self.backends = (FakeDhcpBackend(), FakeDhcpBackend())
        self.clients = {}

    def make_driver(self, second=False) -> DhcpDriver:
        return self.kind(self.backends[second])

    def killed(self, driver):
        FakeDhcpDriver.close(driver)

    def admit(self, network, server):
        pass

    def client(self, network, mac):
        client = self.clients.get((network, mac))
        if client is None:
            client = FakeDhcpClient(self.backends, network, mac)
            self.clients[network, mac] = client
        return client

    def dismiss(self):
        self.clients.clear()
        for backend in self.backends:
            backend.foreign.clear()

    def server(self, network, server):
        serving = self.backends[0].nets.get(network)
        if serving is None:
            return None
        return FoundServer(
            mac=serving.value.server.mac,
            mtu=serving.value.mtu,
            addresses=serving.addresses,
            gateways=serving.gateways,
            listens=serving.alive,
            processes=frozenset({serving.process} - {0}),
        )

    def is_at(self, location, server):
        nets = self.backends[0].nets.items()
        return any(str(id) in location.netns and s.value.server == server for id, s in nets)

    def dump_state(self):
        return frozenset(line for backend in self.backends for line in lines(backend))

    def contains(self, text):
        return any(text in value for backend in self.backends for value in backend.texts.values())

    def kill_server(self, network, server):
        self.backends[0].kill(network)

    def restart_host(self):
        for serving in self.backends[0].nets.values():
            serving.alive, serving.process, serving.addresses = False, 0, frozenset()

    def vanish(self, network, value):
        FakeDhcpDriver(self.backends[0]).drop_network(network)

    def make_foreign(self, value):
        self.backends[0].foreign.add(value.server.id)

    def foreign_is_intact(self, value):
        return value.server.id in self.backends[0].foreign

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.backends[0].online = False
        yield
        self.backends[0].online = True


def lines(backend: FakeDhcpBackend) -> Iterator[str]:
    for id, serving in backend.nets.items():
        yield f"network {id} of {serving.value.server.id}"
    yield from (f"port {id}" for id in backend.ports)
    yield from (f"leases of {id}" for id in backend.stored)
    yield from backend.left
