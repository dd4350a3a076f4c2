"""The suite of `SwitchDriver`: subclass it, write an environment, run pytest.

It sends real packets.  Write a ``SwitchEnvironment`` and yield it from the class's fixture
``shared_environment``.  The hooks of the general promises (``actual``, ``make_foreign``, ...)
concern tunnels, the only objects that a switch driver creates by name.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from ipaddress import IPv4Address

import pytest
from attrs import evolve

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.switch import SwitchDriver
from netfw.drivers.values.switch_values import Endpoint, SwitchKey, SwitchValue, Tunnel
from netfw.errors import BackendLocked
from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw.testing.conformance.common.reconciler import ReconcilerConformance
from netfw.testing.conformance.switch.admission import SwitchAdmissionConformance
from netfw.testing.conformance.switch.cross_host import (
    SwitchProviderConformance,
    SwitchTunnelsConformance,
)
from netfw.testing.conformance.switch.distributed import SwitchDistributedConformance
from netfw.testing.conformance.switch.grants import SwitchGrantsConformance
from netfw.testing.conformance.switch.idempotence import SwitchIdempotenceConformance
from netfw.testing.conformance.switch.isolation import SwitchIsolationConformance
from netfw.testing.conformance.switch.shared_mac import SwitchSharedMacConformance
from netfw.testing.conformance.switch.sub_ports import SwitchSubPortsConformance


class SwitchDriverConformance(
    SwitchAdmissionConformance,
    SwitchIsolationConformance,
    SwitchIdempotenceConformance,
    SwitchGrantsConformance,
    SwitchTunnelsConformance,
    SwitchProviderConformance,
    SwitchSharedMacConformance,
    SwitchDistributedConformance,
    SwitchSubPortsConformance,
    ReconcilerConformance[SwitchKey, SwitchValue],
):
    """The promises of :class:`SwitchDriver`, and of all that it is.

    A driver that has no tunnels overrides `examples` with something else that can be had alone.
    """

    def examples(self, count: int) -> dict[SwitchKey, SwitchValue]:
        peers = [Endpoint(NetworkType.VXLAN, IPv4Address("198.18.0.100") + n) for n in range(count)]
        return {peer: Tunnel(f"peer{n}", mesh=True) for n, peer in enumerate(peers)}

    def changed(self, value: SwitchValue) -> SwitchValue:
        assert isinstance(value, Tunnel)
        return evolve(value, host=f"{value.host}-moved", mesh=not value.mesh)

    def outage(self) -> AbstractContextManager[None]:
        return self.environment.outage()

    def test_two_driver_objects_work_on_one_host_at_once(
        self, make_driver: Callable[[], HostDriver[SwitchKey, SwitchValue]]
    ) -> None:
        """Check both; the second may report that it waits until the first is closed."""
        first, second = make_driver(), self.environment.make_driver()
        things = self.examples(4)
        half = dict(list(things.items())[::2])
        self.assert_done(first.converge(Update(put=things, complete=True)))
        try:
            self.assert_done(second.converge(Update(put=half)))
        except BackendLocked:
            with pytest.raises(BackendLocked):
                second.converge(Update(complete=True))
            self.assert_so(things)
            first.close()
            self.assert_done(second.converge(Update(put=half)))
        self.assert_so(things)
        self.assert_held(second, things.keys())
        second.close()


CONTRACTS = (HostDriver, SwitchDriver)
"""The contracts that the suite tests, besides `Reconciler` where the driver is one."""
