"""The conformance suite of netfw, with hooks that read an Acme switch."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acme_netfw.interface import AcmeInterfaceDriver
from acme_netfw.planned import PlannedAcmeInterfaceDriver

from netfw.drivers.interface import Attachment
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.model import PortId
from netfw.testing.conformance.interface import InterfaceDriverConformance

FOREIGN = {"label": "camera", "mac": "02:00:00:00:00:01", "mtu": 9000, "up": True, "admitted": True}


class TestAcmeInterfaceDriver(InterfaceDriverConformance):
    DRIVER: type[AcmeInterfaceDriver] = AcmeInterfaceDriver

    @pytest.fixture
    def make_driver(self, tmp_path: Path) -> Callable[[], AcmeInterfaceDriver]:
        self.switch = tmp_path / "acme" / "switch.json"
        self.switch.parent.mkdir()
        self.store({})
        return lambda: self.DRIVER.from_conf({"switch": str(self.switch)}, LocalHostResources())

    def stored(self) -> dict[str, Any]:
        """Read the state of the switch without the driver: a driver is not its own witness."""
        ports: dict[str, Any] = json.loads(self.switch.read_text())
        return ports

    def store(self, ports: dict[str, Any]) -> None:
        self.switch.write_text(json.dumps(ports))

    def name_of(self, key: PortId) -> str | None:
        names = (name for name, port in self.stored().items() if str(key) in port["label"])
        return next(names, None)

    def actual(self, key: PortId, value: Attachment) -> Attachment | None:
        name = self.name_of(key)
        if name is None:
            return None
        port = self.stored()[name]
        return Attachment(device=name, mac=port["mac"], mtu=port["mtu"], up=port["up"])

    def make_foreign(self, value: Attachment) -> None:
        self.store({**self.stored(), value.device: FOREIGN})

    def foreign_is_intact(self, value: Attachment) -> bool:
        return self.stored().get(value.device) == FOREIGN

    def vanish(self, key: PortId, value: Attachment) -> None:
        ports = self.stored()
        del ports[value.device]
        self.store(ports)

    @contextmanager
    def outage(self) -> Iterator[None]:
        away = self.switch.parent.with_name("away")
        self.switch.parent.rename(away)
        yield
        away.rename(self.switch.parent)

    def admit(self, port_id: PortId, attachment: Attachment) -> None:
        ports = self.stored()
        ports.get(attachment.device, {})["admitted"] = True
        self.store(ports)

    def is_admitted(self, port_id: PortId, attachment: Attachment) -> bool:
        return self.stored().get(attachment.device, {}).get("admitted") is True


class TestPlannedAcmeInterfaceDriver(TestAcmeInterfaceDriver):
    DRIVER = PlannedAcmeInterfaceDriver

    def drifts(self) -> Mapping[str, Callable[[PortId, Attachment], None]]:
        return {
            "another MAC": self.set_to(mac="02:00:00:00:00:02"),
            "another MTU": self.set_to(mtu=1300),
            "switched off": self.set_to(up=False),
            "pulled out": self.vanish,
        }

    def set_to(self, **change: object) -> Callable[[PortId, Attachment], None]:
        def spoil(key: PortId, value: Attachment) -> None:
            ports = self.stored()
            ports[value.device].update(change)
            self.store(ports)

        return spoil
