"""What clients receive from distributed DHCP is what the suite of DHCP drivers asks for."""

from collections.abc import Iterator

import pytest

from netfw.testing.conformance.dhcp.changes import DhcpChangesConformance
from netfw.testing.conformance.dhcp.injection import DhcpInjectionConformance
from netfw.testing.conformance.dhcp.ipv6 import DhcpIpv6Conformance
from netfw.testing.conformance.dhcp.leases import DhcpLeasesConformance
from netfw.testing.conformance.dhcp.unservable_parts import DhcpUnservablePartsConformance
from tests.conformance.dhcp.distributed_environment import DistributedDhcpEnvironment

pytestmark = pytest.mark.services


@pytest.mark.spec("DHCP-81")
class TestDistributedDhcp(
    DhcpLeasesConformance,
    DhcpChangesConformance,
    DhcpInjectionConformance,
    DhcpUnservablePartsConformance,
    DhcpIpv6Conformance,
):
    """Answers, flows and responder; the agent and its costs are tested elsewhere."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared_environment(cls) -> Iterator[DistributedDhcpEnvironment]:
        with DistributedDhcpEnvironment() as environment:
            yield environment

    # No device, namespace or process serves a network.
    test_the_device_has_addresses_and_routes_of_both_families = None
    test_an_ipv6_lease_lives_on = None
    test_ports_come_and_go_without_interrupting_others = None
    test_a_dropped_network_leaves_nothing = None
    # Metadata is not reached through the DHCP port, which is on no host.
    test_metadata_is_reached_through_the_server_where_configured = None
    # Each port is answered by its own host alone, from the same port on all hosts.
    test_two_servers_of_one_network_agree = None
    test_a_lease_of_one_server_is_not_refused_by_the_next = None
    # These concern the driver object, in the place of which is the agent.
    test_one_port_more_costs_the_same_among_few_and_many = None
    test_the_next_driver_drops_what_the_former_one_made = None
