"""The Linux router driver keeps the promises of its contract, with real packets."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netfw.testing.conformance import RouterDriverConformance
from netfw.testing.conformance.router.environment import RouterEnvironment
from netfw.testing.conformance.router.services import RouterServicesConformance
from netfw.testing.conformance.router.translation import RouterTranslationConformance
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment
from tests.nightly import nightly_tests

pytestmark = pytest.mark.services

LEGACY = "xtables-legacy-multi"


@contextmanager
def legacy_tools() -> Iterator[None]:
    """Have the system choose the legacy iptables."""
    path, real = os.environ["PATH"], shutil.which(LEGACY)
    if real is None:
        pytest.skip(f"there is no {LEGACY}")
    with tempfile.TemporaryDirectory() as tools:
        for name in ("iptables", "ip6tables"):
            for verb in ("", "-save", "-restore"):
                Path(tools, f"{name}{verb}").symlink_to(real)
        os.environ["PATH"] = f"{tools}:{path}"
        try:
            yield
        finally:
            os.environ["PATH"] = path


@nightly_tests(
    "test_a_driver_of_distributed_routers_killed_at_any_stage_is_succeeded",
    "test_a_host_whose_ha_port_is_not_wired_does_not_become_active",
    "test_a_restart_of_the_drivers_changes_no_role",
    "test_a_returning_host_does_not_preempt",
    "test_a_router_is_converted_and_dropped_without_residue",
    "test_an_expired_prefix_is_reported",
    "test_an_update_of_a_running_pair_changes_no_role",
    "test_every_change_of_role_is_an_event",
    "test_killed_processes_leave_one_host_active",
    "test_the_active_host_alone_requests_a_prefix_and_the_next_one_keeps_it",
    "test_the_other_host_takes_over_when_the_router_leaves_the_active_one",
    "test_without_gateway_or_interface_no_prefix_is_requested",
)
@pytest.mark.spec(
    "L3-11", "L3-20", "L3-21", "L3-22", "L3-23", "L3-24", "L3-25", "L3-26", "L3-27", "L3-28",
    "L3-30", "L3-31", "L3-32", "L3-33", "L3-61", "L3-62", "L3-63", "L3-66", "L3-69", "MD-03",
)  # fmt: skip
class TestLinuxRouterDriver(RouterDriverConformance):
    """The driver with the iptables that the system chose."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with LinuxRouterEnvironment(ha_vrrp_advert_int=1) as environment:
            yield environment


@pytest.mark.nightly
class TestLinuxRouterDriverWithLegacyIptables(
    RouterTranslationConformance, RouterServicesConformance
):
    """What depends on rules, with the other iptables."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[RouterEnvironment]:
        with legacy_tools(), LinuxRouterEnvironment() as environment:
            yield environment
