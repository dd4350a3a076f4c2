"""A value belongs to its key, or is refused."""

from __future__ import annotations

from uuid import uuid4

from netfw.drivers.support.entry_validation import entry_error
from netfw.drivers.values.keys import GroupKey, NetworkKey, PortKey
from netfw.drivers.values.switch_values import LocalNetwork, SwitchEntry
from netfw.model.values.ids import NetworkId, PortId, SecurityGroupId

NETWORK = LocalNetwork(segments=(), mtu=1500)


def test_value_of_its_key_is_accepted() -> None:
    assert entry_error(SwitchEntry, NetworkKey(NetworkId(uuid4())), NETWORK) is None


def test_value_of_another_key_is_refused_by_name() -> None:
    key = PortKey(PortId(uuid4()))
    error = entry_error(SwitchEntry, key, NETWORK)
    assert error is not None
    assert error.problems == {str(key): "LocalNetwork is no value for PortKey"}


def test_key_that_the_contract_does_not_have_is_refused() -> None:
    key = GroupKey(SecurityGroupId(uuid4()))
    error = entry_error(SwitchEntry, key, NETWORK)
    assert error is not None
    assert error.problems == {str(key): "LocalNetwork is no value for GroupKey"}
