"""The files of dhclient: golden configurations, identifiers, leases."""

from __future__ import annotations

from ipaddress import IPv6Network
from pathlib import Path
from uuid import UUID

import pytest
from attrs import evolve

from netfw.model.values.address import Mac
from netfw.model.values.ids import RouterId, SubnetId
from netfw_drivers.linux_router.config.dhclient import (
    Delegation,
    PrefixClient,
    find_prefixes,
    parse_client,
    parse_leases,
    render_client,
    render_identity,
)
from tests.unit.backends.linux_router.config.golden import check_golden

GOLDEN = Path(__file__).parent / "golden_dhclient"
SUBNETS = [SubnetId(UUID(int=number)) for number in range(1, 4)]
CLIENT = PrefixClient(
    device="qg-01234567-89", mac=Mac("fa:16:3e:ff:ff:fe"), subnets={0: SUBNETS[0], 2: SUBNETS[1]}
)
CASES = {"two": CLIENT, "one": evolve(CLIENT, subnets={0: SUBNETS[2]})}
LEASE = """lease6 {
  interface "qg-01234567-89";
  ia-pd 3e:ff:ff:fe {
    starts 1000;
    renew 5;
    rebind 10;
    iaprefix 2001:db8:1::/64 {
      starts 1000;
      preferred-life 20;
      max-life 40;
    }
%s  }
  option dhcp6.client-id 0:4:11;
}
"""
OTHER = """    iaprefix 2001:db8:2::/56 {
      starts 1000;
      preferred-life 30;
      max-life 30;
    }
"""
pytestmark = pytest.mark.spec("L3-27")


@pytest.mark.parametrize("name", CASES)
def test_configuration_is_as_the_golden_file(name: str) -> None:
    text = render_client(CASES[name])
    check_golden(GOLDEN / f"{name}.conf", text)
    assert parse_client(text) == CASES[name]


def test_there_are_no_other_golden_files() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_a_text_without_a_device_is_no_configuration() -> None:
    assert parse_client("") is None
    assert parse_client("# prefix 0 for subnet 1\n") is None


def test_a_text_with_a_broken_line_is_no_configuration() -> None:
    assert parse_client("# device qg-1 mac 00:00:00:00:00:0:\n") is None
    numbered = "# device qg-1 mac fa:16:3e:00:00:01\n# prefix 0 for subnet " + "-" * 36 + "\n"
    found = parse_client(numbered)
    assert found is not None
    assert found.subnets == {}


def test_associations_are_numbered_from_the_mac_address() -> None:
    assert [CLIENT.iaid(number) for number in (0, 2)] == [0x3EFFFFFE, 0x3F000000]
    assert evolve(CLIENT, mac=Mac("fa:16:ff:ff:ff:ff")).iaid(1) == 0
    assert CLIENT.count == 3


def test_a_router_has_one_identifier_everywhere() -> None:
    assert render_identity(RouterId(UUID(int=255))) == (
        'default-duid "\\000\\004' + "\\000" * 15 + '\\377";\n'
    )


def test_the_newest_complete_lease_counts() -> None:
    (found,) = parse_leases(LEASE % "").items()
    expected = Delegation(
        preferred_until=1020, valid_until=1040, prefix=IPv6Network("2001:db8:1::/64")
    )
    assert found == (0x3EFFFFFE, (expected,))
    newer = (LEASE % "").replace("db8:1:", "db8:9:")
    (later,) = parse_leases((LEASE % "") + newer).values()
    assert later[0].prefix == IPv6Network("2001:db8:9::/64")
    half = newer[: len(newer) // 2]
    assert parse_leases((LEASE % "") + half) == dict([found]), "it is being written"
    assert parse_leases((LEASE % "").replace("lease6 {", "lease6 {\n  released;")) == {}
    assert parse_leases("") == {}


@pytest.mark.parametrize("low", ["41:42:43", "22:5c:7d", "20:7e:22"])
def test_an_identifier_of_printable_octets_is_written_as_text(low: str) -> None:
    client = evolve(CLIENT, mac=Mac(f"fa:16:3e:{low}"))
    text = bytes.fromhex(f"3e:{low}".replace(":", "")).decode()
    leases = parse_leases((LEASE % "").replace("3e:ff:ff:fe", f'"{text}"'))
    assert find_prefixes(client, leases, 0) == {SUBNETS[0]: IPv6Network("2001:db8:1::/64")}


def test_the_prefix_that_is_preferred_longest_is_chosen_until_all_have_expired() -> None:
    leases = parse_leases(LEASE % OTHER)
    for now, prefix in ((1000, "2001:db8:2::/64"), (1031, "2001:db8:1::/64"), (1040, None)):
        expected = None if prefix is None else IPv6Network(prefix)
        assert find_prefixes(CLIENT, leases, now) == {SUBNETS[0]: expected}


def test_prefixes_that_no_subnet_can_have_are_ignored() -> None:
    for prefix in ("2001:db8:1::/96", "nonsense", "10.0.0.0/24"):
        leases = parse_leases((LEASE % "").replace("2001:db8:1::/64", prefix))
        assert find_prefixes(CLIENT, leases, 0) == {SUBNETS[0]: None}
