"""The null driver keeps the contract, in a machine that it imagines."""

from collections.abc import Callable

import pytest

from netfw.drivers.interface import Attachment
from netfw.drivers.registry.local_host import LocalHostResources
from netfw.model.ids import PortId
from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw_drivers.null.interface import NullInterfaceDriver, NullInterfaceState
from tests.conformance.common.fake_backend import OnImaginaryMachine

pytestmark = pytest.mark.fakes


@pytest.mark.spec("DRV-03", "DRV-04")
class TestNullInterfaceDriver(OnImaginaryMachine, InterfaceDriverConformance):
    @pytest.fixture
    def make_driver(self) -> Callable[[], NullInterfaceDriver]:
        host = LocalHostResources()
        self.machine = host.share(NullInterfaceState, NullInterfaceState)
        return lambda: NullInterfaceDriver.from_conf({}, host)

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        found = self.machine.attachments.get(key)
        return found if found is not None and found.device == value.device else None

    def vanish(self, key: PortId, value: Attachment) -> None:
        del self.machine.attachments[key]

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        """There is no switch, and no traffic that could pass it."""

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return False
