"""Environments for firewalls whose state is in the kernel of a lab's host."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import ClassVar

import pytest
from attrs import evolve

from netfw.drivers.firewall import FirewallDriver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.model.values.ids import NetworkId
from netfw.testing.conformance.firewall.environment import PlugPoint
from netfw.testing.conformance.firewall.lab_environment import (
    BridgeEnvironment,
    FirewallLabEnvironment,
)
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import InstanceDevice
from netfw.testing.lab.lab import Lab
from tests.conformance.firewall.ovs_environment import OvsEnvironment
from tests.lab.testing.lab.hidden_openvswitch import hidden_openvswitch


class KernelState(ABC):
    """The filters of a host as the commands of an operator show them."""

    @abstractmethod
    def dump_state(self) -> frozenset[str]: ...
    @abstractmethod
    def lose_state(self) -> None: ...
    @abstractmethod
    def make_foreign(self) -> None: ...
    @abstractmethod
    def foreign_is_intact(self) -> bool: ...


class FilteredByKernel(ABC):
    """The state of a firewall that is in the kernel, and how its driver is made."""

    state: KernelState

    @abstractmethod
    def make_firewall(self) -> FirewallDriver:
        """Return a new driver object."""

    def dump_state(self) -> frozenset[str]:
        return self.state.dump_state()

    def lose_state(self) -> None:
        self.state.lose_state()

    def make_foreign(self) -> None:
        self.state.make_foreign()

    def foreign_is_intact(self) -> bool:
        return self.state.foreign_is_intact()


class KernelBridgeEnvironment(FilteredByKernel, BridgeEnvironment):
    """Ports of Linux bridges."""

    def make_driver(self) -> FirewallDriver:
        return self.make_firewall()


class KernelHybridEnvironment(FilteredByKernel, OvsEnvironment):
    """Ports of br-int, each behind a Linux bridge of its own."""

    in_switch = False
    kind = InstanceDevice.HYBRID

    def plug_point(self, number: int, network: NetworkId) -> PlugPoint:
        plain = super().plug_point(number, network)
        return evolve(plain, device=plain.device.replace("tap", "qvo", 1))

    def firewall(self, location: LocalHostResources) -> FirewallDriver:
        return self.make_firewall()

    def outage(self) -> None:
        """Return no context: the backend is the kernel, which always answers."""


class OnLabHost:
    """A suite on one host of a lab, as on a machine without Open vSwitch unless it needs one."""

    make_environment: ClassVar[Callable[[Host], FirewallLabEnvironment]]
    NEEDS_SWITCH: ClassVar[bool] = False

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[FirewallLabEnvironment]:
        with (
            nullcontext() if cls.NEEDS_SWITCH else hidden_openvswitch(),
            Lab(1, switch=cls.NEEDS_SWITCH) as lab,
        ):
            (host,) = lab.hosts.values()
            environment = cls.make_environment(host)
            yield environment
            if isinstance(environment, OvsEnvironment):
                environment.end()
