"""What happens to the devices that networks are served from."""

from uuid import UUID

import pytest
from dhcp_world import CLOUD, NET, World

from netfw.drivers.events import KeysChanged
from netfw.model.ids import PortId


@pytest.mark.spec("DHCP-23")
def test_a_network_whose_device_changed_is_looked_at_again():
    found = World(*CLOUD)
    found.ready()
    server, calls = found.dhcp.networks()[NET.id].server, len(found.dhcp.calls)
    found.machine.tell(KeysChanged("the switch changed their ports", {PortId(UUID(int=99))}))
    found.ready()
    assert len(found.dhcp.calls) == calls, "of a stranger"
    found.machine.tell(KeysChanged("the switch changed their ports", {server.id}))
    found.ready()
    assert len(found.dhcp.calls) == calls + 1
