"""The null driver keeps the contract, in a machine that it imagines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from netfw.drivers.host import LocalHost
from netfw.drivers.interface import Attachment
from netfw.model.ids import PortId
from netfw.testing.conformance.interface import InterfaceDriverConformance
from netfw_drivers.null.interface import ImaginaryMachine, NullInterfaceDriver


@pytest.mark.spec("DRV-03", "DRV-04")
class TestNullInterfaceDriver(InterfaceDriverConformance):
    @pytest.fixture
    def make_driver(self) -> Callable[[], NullInterfaceDriver]:
        host = LocalHost()
        self.machine = host.share(ImaginaryMachine, ImaginaryMachine)
        return lambda: NullInterfaceDriver.from_conf({}, host)

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        found = self.machine.attachments.get(key)
        return found if found is not None and found.device == value.device else None

    def make_foreign(self, value: Attachment) -> None:
        self.machine.foreign.add(value.device)

    def foreign_is_intact(self, value: Attachment) -> bool:
        return value.device in self.machine.foreign

    def vanish(self, key: PortId, value: Attachment) -> None:
        del self.machine.attachments[key]

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.machine.online = False
        yield
        self.machine.online = True

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        """There is no switch, and no traffic that could pass it."""

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return False
