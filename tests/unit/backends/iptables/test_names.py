"""Names of chains and sets hold whole ids."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.errors import InvalidInput
from netfw.linux.bridge_firewall.values import check_device
from netfw.linux.ipset.values import full_name as full_set_name
from netfw.linux.iptables.chain import full_name
from netfw.model.values.ids import AddressGroupId, SecurityGroupId
from netfw_drivers.iptables.plan.names import (
    OWNER,
    bucket_chain,
    bucket_of,
    id_in,
    long,
    read_set_name,
    set_name,
    short,
)


@given(st.uuids())
def test_an_id_is_read_back_from_its_name(id: UUID) -> None:
    assert long(short(id)) == id
    assert id_in("o", f"o{short(id)}") == id
    assert id_in("i", f"o{short(id)}") is None
    full_name(OWNER, f"o{short(id)}")


@given(st.uuids(), st.uuids())
def test_two_ids_never_meet_in_one_name(one: UUID, two: UUID) -> None:
    assert (short(one) == short(two)) is (one == two)


@given(st.uuids(), st.sampled_from([4, 6]))
def test_a_set_is_that_of_a_group_of_one_kind_and_family(id: UUID, family: int) -> None:
    keys = (GroupKey(SecurityGroupId(id)), AddressGroupKey(AddressGroupId(id)))
    names = [set_name(key, family) for key in keys]
    assert len(set(names)) == 2
    for key, name in zip(keys, names, strict=True):
        assert read_set_name(name) == (key, family)
        full_set_name(OWNER, f"t{name}")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "o",
        "sent.tap1",
        "o" * 23,
        "oAAAAAAAAAAAAAAAAAAAAAB",
        "oAAAAAAAAAAAAAAAAAAAAA=",
        "basics-in",
    ],
)
def test_foreign_chain_name_has_no_port(name: str) -> None:
    assert id_in("o", name) is None


@pytest.mark.parametrize("name", ["", "G4", "X4AAAAAAAAAAAAAAAAAAAAAA", "G5AAAAAAAAAAAAAAAAAAAAAA"])
def test_foreign_set_name_has_no_group(name: str) -> None:
    assert read_set_name(name) is None


@pytest.mark.spec("FW-12")
@pytest.mark.parametrize(
    "device",
    ["", "-j", "tap 1", "tap\n-A", "tap+", "x" * 16, "a/b", "tap1;", "tap\u2019", "tap1\x00"],
)
def test_what_cannot_be_a_device_is_refused(device: str) -> None:
    with pytest.raises(InvalidInput):
        check_device(device)


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(InvalidInput):
        short("not an id")  # type: ignore[arg-type]


def test_devices_are_bucketed_by_prefix() -> None:
    assert bucket_of("tap1234") == bucket_of("tap1999") == "tap1"
    assert bucket_of("t1") == "t1"
    assert bucket_chain("sent", "tap1") == "sent.tap1"
    assert bucket_chain("sent", bucket_of("a@b")) == "sent-rest"
