"""The active instance of a highly available router answers as a plain router does: H-3."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import ClassVar

import pytest
from attrs import evolve

from netfw.drivers.base import HostResources
from netfw.drivers.values.keys import RouterKey
from netfw.drivers.values.router_values import (
    HighAvailability,
    RouterDriverKey,
    RouterDriverValue,
    RouterState,
)
from netfw.errors import PartlyInvalid
from netfw.model.router import HaRole
from netfw.model.values.ids import RouterId
from netfw.plan import Outcome, Update
from netfw.testing.conformance.common.promises import proofs_in
from netfw.testing.conformance.router.environment import RouterEnvironment
from netfw.testing.conformance.router.factories import RoutedNetwork
from netfw.testing.conformance.router.forwarding import RouterForwardingConformance
from netfw.testing.conformance.router.services import RouterServicesConformance
from netfw.testing.conformance.router.translation import RouterTranslationConformance
from netfw.testing.lab.wait import wait_until
from netfw_drivers.linux_router.driver import LinuxRouterDriver
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment

pytestmark = [pytest.mark.services, pytest.mark.nightly]

QUICK_PRIORITY = 254
"""The priority with which an instance waits the least before it becomes active."""
SELECTED = (
    "test_instances_of_two_networks_reach_each_other_untranslated",
    "test_two_next_hops_of_one_destination_are_both_used",
    "test_a_route_by_the_external_network_leaves_there",
    "test_a_dropped_router_leaves_nothing",
    "test_an_instance_leaves_with_the_address_of_the_gateway",
    "test_ipv6_leaves_and_arrives_untranslated",
    "test_a_floating_ip_works_in_both_directions",
    "test_a_floating_ip_is_reached_from_inside",
    "test_a_moved_floating_ip_ends_its_connections",
    "test_a_gateway_address_changes_beside_floating_ips",
    "test_a_next_hop_outside_the_subnet_is_on_the_link",
    "test_refused_rules_leave_the_former_ones_in_force",
    "test_one_scope_inside_and_outside_is_not_translated",
    "test_instances_reach_the_metadata_proxy",
    "test_advertisements_of_two_routers_on_one_network_have_different_sources",
    "test_a_contribution_forwards_ports_and_goes_with_its_extension",
)
"""Tests of plain routers, at least one of each kind: every router takes 3 seconds for its election.

``test_routes_are_added_changed_and_removed`` is left out: an update is done before keepalived has
removed a route.
"""


class HaLinuxRouterDriver(LinuxRouterDriver):
    """The driver, with an HA port for every router; a router that was put is active afterwards."""

    add_ha: Callable[[RouterId], HighAvailability]

    def converge(
        self, update: Update[RouterDriverKey, RouterDriverValue]
    ) -> Outcome[RouterDriverKey]:
        put = {key: self._with_ha(key, value) for key, value in update.put.items()}
        outcome = super().converge(evolve(update, put=put))
        for key in put:
            error = outcome.failed.get(key)
            in_force = key in outcome.done or isinstance(error, PartlyInvalid)
            if isinstance(key, RouterKey) and in_force:
                self._await_active(key.router)
        return outcome

    def _with_ha(self, key: RouterDriverKey, value: RouterDriverValue) -> RouterDriverValue:
        if not isinstance(key, RouterKey) or not isinstance(value, RouterState):
            return value
        if value.full is None:
            return value
        return evolve(value, full=evolve(value.full, ha=self.add_ha(key.router)))

    def _await_active(self, router: RouterId) -> None:
        wait_until(
            lambda: self.status(router).role is HaRole.ACTIVE,
            lambda: f"the router is {self.status(router).role}",
        )


class HaLinuxRouterEnvironment(LinuxRouterEnvironment):
    """A host on which every router is the only instance of a highly available one."""

    driver_class: ClassVar[type[LinuxRouterDriver]] = HaLinuxRouterDriver

    def __init__(self) -> None:
        super().__init__()
        self._network = RoutedNetwork(blocks=(ip_network("169.254.192.0/18"),))
        self._ha: dict[RouterId, HighAvailability] = {}

    def make_router(self, host: HostResources, directory: Path) -> LinuxRouterDriver:
        driver = super().make_router(host, directory)
        assert isinstance(driver, HaLinuxRouterDriver)
        driver.add_ha = self._add_ha
        return driver

    def _add_ha(self, router: RouterId) -> HighAvailability:
        """Return the HA settings of a router, always the same ones, with an admitted port."""
        if router not in self._ha:
            number = len(self._ha) + 1
            port = self._network.port(number)
            self._ha[router] = HighAvailability(port=port, vrid=number, priority=QUICK_PRIORITY)
        self.admit([self._ha[router].port])
        return self._ha[router]


@pytest.mark.spec("L3-40")
class TestHaLinuxRouterDriver(
    RouterForwardingConformance,
    RouterTranslationConformance,
    RouterServicesConformance,
):
    """The selected tests, each with routers that have become active."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with HaLinuxRouterEnvironment() as environment:
            yield environment


def select_tests(suite: type, names: Collection[str]) -> None:
    """Hide all tests of a suite but *names* from pytest."""
    every = {name for name, _ in proofs_in(suite)}
    assert every.issuperset(names), f"there is no {every.symmetric_difference(names) - every}"
    for name in every.difference(names):
        setattr(suite, name, None)


select_tests(TestHaLinuxRouterDriver, SELECTED)
