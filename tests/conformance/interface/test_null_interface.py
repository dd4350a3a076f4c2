"""The null driver keeps the contract on its backend in memory."""

import re
from collections.abc import Callable, Collection
from typing import TypeVar

import pytest

from netfw.drivers.interface import Attachment
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.subscription import Service
from netfw.model.values.ids import PortId
from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw_drivers.null.interface import NullInterfaceDriver, NullInterfaceState
from tests.conformance.common.fake_backend import FakeBackendHooks

pytestmark = pytest.mark.fakes

T = TypeVar("T")


@pytest.mark.spec("DRV-03", "DRV-04")
class TestNullInterfaceDriver(FakeBackendHooks, InterfaceDriverConformance):
    backend: NullInterfaceState

    @pytest.fixture
    def make_driver(self) -> Callable[[], NullInterfaceDriver]:
        host = LocalHostResources()
        self.backend = host.share(NullInterfaceState, NullInterfaceState)
        return lambda: NullInterfaceDriver.from_conf({}, host)

    def refused(self, call: Callable[[], T]) -> T:
        """Return the result of *call*: nothing refuses a change in memory."""
        return call()

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        device = self.backend.attachments.get(key)
        return device if device is not None and device.device == value.device else None

    def vanish(self, key: PortId, value: Attachment) -> None:
        del self.backend.attachments[key]

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        """Do nothing: there is no switch."""

    def initialized_services(self) -> Collection[Service]:
        return self.backend.initialized

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return False

    def test_no_example_is_the_index_of_a_device_for_ip(self) -> None:
        """``ip link delete if3b5faaea-612`` deletes the device of index 3 if none has that name."""
        names = {value.device for value in self.examples(64).values()}
        assert not [name for name in names if re.match(r"if\d", name)]
