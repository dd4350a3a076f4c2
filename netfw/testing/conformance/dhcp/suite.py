"""The suite of `DhcpDriver`: subclass it, write an environment, run pytest.

It uses real clients.  Write a ``DhcpEnvironment``, by way of
``netfw.testing.conformance.dhcp.lab_environment``, and yield it from the class's fixture
``shared_environment``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from ipaddress import ip_interface
from typing import Any

from attrs import evolve

from netfw.drivers.dhcp import DhcpDriver, DhcpKey, DhcpNetwork, DhcpPort, DhcpValue
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.model.port import FixedIp
from netfw.model.values.address import Mac
from netfw.plan import Update
from netfw.testing.conformance.common.backend_optional import BackendOptionalConformance
from netfw.testing.conformance.common.promises import proves
from netfw.testing.conformance.common.reconciler import Drift
from netfw.testing.conformance.dhcp.changes import DhcpChangesConformance
from netfw.testing.conformance.dhcp.environment import FoundServer
from netfw.testing.conformance.dhcp.factories import make_network, wanted
from netfw.testing.conformance.dhcp.injection import DhcpInjectionConformance
from netfw.testing.conformance.dhcp.ipv6 import DhcpIpv6Conformance
from netfw.testing.conformance.dhcp.leases import DhcpLeasesConformance
from netfw.testing.conformance.dhcp.persistence import DhcpPersistenceConformance
from netfw.testing.conformance.dhcp.unservable_parts import DhcpUnservablePartsConformance

HALF = 1234
"""An MTU that stands for a partial server: the device exists, but no process listens."""
NOBODY = Mac("fe:ff:ff:ff:ff:fe")

Driver = HostDriver[DhcpKey, DhcpValue]


class DhcpDriverConformance(
    DhcpLeasesConformance,
    DhcpChangesConformance,
    DhcpPersistenceConformance,
    DhcpInjectionConformance,
    DhcpUnservablePartsConformance,
    DhcpIpv6Conformance,
    BackendOptionalConformance[DhcpKey, DhcpValue],
):
    """The promises of :class:`DhcpDriver` and of its base classes.

    The general promises are tested with networks, which are inspected on the host, and, where
    needed, with a port, which is inspected by a client.
    """

    def examples(self, count: int) -> dict[DhcpKey, DhcpValue]:
        nets = [make_network() for _ in range(count)]
        self.admit(*nets)
        return wanted(*nets)

    def changed(self, value: DhcpValue) -> DhcpValue:
        if isinstance(value, DhcpPort):
            (fixed,) = value.fixed_ips
            moved = FixedIp(subnet_id=fixed.subnet_id, address=fixed.address + 1)
            return evolve(value, fixed_ips=(moved,))
        (address,) = value.server.addresses
        moved_server = ip_interface((address.ip + 2, address.network.prefixlen))
        server = evolve(value.server, addresses=(moved_server,), mac="fa:16:3e:ff:00:02")
        return evolve(value, server=server, mtu=value.mtu - 100, dns_domain="changed.example")

    def actual(self, key: DhcpKey, value: DhcpValue) -> DhcpValue | None:
        if isinstance(key, PortKey):
            assert isinstance(value, DhcpPort)
            return self._actual_port(value)
        assert isinstance(value, DhcpNetwork)
        server = self.environment.server(key.network, value.server)
        if server is None:
            names = (str(key.network), str(value.server.id)[:11])
            left = [
                line
                for line in self.environment.dump_state()
                if any(name in line for name in names)
            ]
            return evolve(value, mtu=HALF) if left else None
        return _as_observed(value, server)

    def _actual_port(self, value: DhcpPort) -> DhcpPort | None:
        """Return the lease of the port's client; of its addresses, the leased one."""
        server = self._servers.get(value.network)
        if server is None or self.environment.server(value.network, server) is None:
            return None  # no server listens
        lease = self.environment.client(value.network, value.mac).lease()
        if lease is None:
            return None
        mine = tuple(fixed for fixed in value.fixed_ips if fixed.address == lease.ip)
        return evolve(value, fixed_ips=mine or value.fixed_ips, mac=value.mac if mine else NOBODY)

    def edge_cases(self, value: DhcpValue) -> Mapping[str, DhcpValue]:
        assert isinstance(value, DhcpNetwork)
        variants: dict[str, DhcpValue] = {
            f"MTU {n}": evolve(value, mtu=n) for n in (68, 1279, 9000)
        }
        variants["no name"] = evolve(value, dns_domain="")
        variants["a long name"] = evolve(value, dns_domain=".".join(["x" * 60] * 4))
        variants["a root"] = evolve(value, dns_domain="example.org.")
        return variants

    def make_foreign(self, value: DhcpValue) -> None:
        assert isinstance(value, DhcpNetwork)
        self.environment.make_foreign(value)

    def foreign_is_intact(self, value: DhcpValue) -> bool:
        assert isinstance(value, DhcpNetwork)
        return self.environment.foreign_is_intact(value)

    def vanish(self, key: DhcpKey, value: DhcpValue) -> None:
        assert isinstance(key, NetworkKey)
        assert isinstance(value, DhcpNetwork)
        self.environment.vanish(key.network, value)

    def outage(self) -> AbstractContextManager[None]:
        return self.environment.outage()

    def drifts(self) -> Mapping[str, Drift]:
        return {name: self._spoiling(spoil) for name, spoil in self.environment.drifts().items()}

    def _spoiling(self, spoil: Callable[[Any, DhcpNetwork], None]) -> Drift:
        return lambda key, value: spoil(key.network, value)

    def one_of_each(self) -> dict[DhcpKey, DhcpValue]:
        """Return a network with a port."""
        net = make_network()
        self.admit(net)
        return wanted(net, net.tenant())

    @proves(Reconciler, 3)
    @proves(DhcpDriver, 4)
    def test_dying_after_any_stage_of_making_is_safe(
        self, make_driver: Callable[[], Driver]
    ) -> None:
        self.kill_at_every_stage(make_driver, {}, Update(put=self.one_of_each(), complete=True))

    @proves(Reconciler, 3)
    @proves(DhcpDriver, 4)
    def test_dying_after_any_stage_of_changing_is_safe(
        self, make_driver: Callable[[], Driver]
    ) -> None:
        things = self.one_of_each()
        changed = {key: self.changed(value) for key, value in things.items()}
        self.kill_at_every_stage(make_driver, things, Update(put=changed, complete=True))

    @proves(Reconciler, 3)
    @proves(DhcpDriver, 7)
    def test_dying_after_any_stage_of_removing_is_safe(
        self, make_driver: Callable[[], Driver]
    ) -> None:
        self.kill_at_every_stage(make_driver, self.one_of_each(), Update(complete=True))


def _as_observed(value: DhcpNetwork, actual: FoundServer) -> DhcpNetwork:
    """Return *value* with the host's actual state in place of the requested one."""
    addresses = value.server.addresses
    if actual.addresses != set(addresses):
        addresses = tuple(sorted(actual.addresses, key=str))
    server = evolve(value.server, mac=actual.mac, addresses=addresses)
    return evolve(value, server=server, mtu=actual.mtu if actual.listens else HALF)


CONTRACTS = (HostDriver, DhcpDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
