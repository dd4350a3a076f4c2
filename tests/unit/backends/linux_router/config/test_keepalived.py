"""The configuration of keepalived: golden files, checked by keepalived itself, and refusals."""

from __future__ import annotations

from ipaddress import IPv4Address, ip_interface
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import ConfigError, InvalidInput
from netfw.linux.ip.values import IpRoute, NextHop, route
from netfw_drivers.linux_router.config.keepalived import (
    MAX_ADDRESSES,
    MAX_ROUTES,
    VirtualAddress,
    VrrpInstance,
    VrrpSettings,
    change_addresses,
    marker,
    parse_addresses,
    parse_route_errors,
    render_keepalived,
)
from netfw_drivers.linux_router.config.settings import OPTIONS, read_settings
from tests.unit.backends.linux_router.config.golden import check_golden

GOLDEN = Path(__file__).parent / "golden_keepalived"


def virtual(device: str, *cidrs: str) -> tuple[VirtualAddress, ...]:
    return tuple(VirtualAddress(device, ip_interface(cidr)) for cidr in cidrs)


BARE = VrrpInstance(vrid=7, priority=50, device="ha-1", source=IPv4Address("169.254.192.5"))
ROUTER = evolve(
    BARE,
    addresses=(
        *virtual("qr-1", "10.0.0.1/24", "fd00::1/64", "fe80::f816:3eff:fe00:1/64"),
        *virtual("qg-1", "203.0.113.5/24", "203.0.113.9/32", "203.0.113.8/32"),
    ),
    routes=(
        route("198.51.100.0/24", device="qg-1"),
        route("default", via="203.0.113.1", device="qg-1"),
        route("default", via="fe80::1", device="qg-1"),
    ),
)
HOPS = (NextHop(via="10.0.0.7", device="qr-1"), NextHop(via="10.0.0.8", device="qr-1", onlink=True))
CASES = {
    "bare": BARE,
    "router": ROUTER,
    "routes": evolve(
        ROUTER,
        routes=(
            IpRoute(destination="192.0.2.0/24", hops=HOPS),
            route("10.9.0.0/16", via="100.64.0.1", device="qg-1", onlink=True),
            route("2001:db8:6::/64", device="qg-1"),
        ),
    ),
    "unicast": evolve(
        BARE,
        peers=(IPv4Address("169.254.192.7"), IPv4Address("169.254.192.6")),
        settings=VrrpSettings(unicast=True),
    ),
    "authenticated": evolve(
        BARE,
        settings=VrrpSettings(advert_int=1, auth_password="se-cr.3t", garp_master_refresh=0),
    ),
    "conntrackd": evolve(BARE, conntrackd=Path("/var/lib/netfw/routers/conntrackd/router.conf")),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("L3-40")
def test_configuration_is_as_the_golden_file(name: str):
    check_golden(GOLDEN / f"{name}.conf", render_keepalived(CASES[name]))


def test_there_are_no_other_golden_files():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_addresses_are_parsed_as_rendered():
    text = render_keepalived(ROUTER)
    assert set(parse_addresses(text)) == set(ROUTER.addresses)
    assert parse_addresses(render_keepalived(BARE)) == ()
    assert parse_addresses("virtual_ipaddress_excluded {\n   rubbish\n") == ()


def test_changed_addresses_are_those_of_a_new_configuration():
    (new,) = virtual("qg-1", "203.0.113.7/32")
    old = ROUTER.addresses[-1]
    after = evolve(ROUTER, addresses=(*ROUTER.addresses[:-1], new))
    text = render_keepalived(ROUTER)
    assert change_addresses(text, [new], {old}) == render_keepalived(after)
    assert change_addresses(text, [], set()) == text
    one = change_addresses(render_keepalived(BARE), [new], ())
    assert one == render_keepalived(evolve(BARE, addresses=(new,)))


def test_restricted_instance_has_what_is_configured_on_its_devices_only():
    (new,) = virtual("qr-1", "10.0.0.2/32")
    more = evolve(ROUTER, addresses=(*ROUTER.addresses, new))
    less = more.restricted_to({"qr-1"}, render_keepalived(ROUTER))
    assert less.addresses == ROUTER.addresses[:3]
    assert less.routes == ()
    same = more.restricted_to({"qr-1", "qg-1"}, render_keepalived(ROUTER))
    assert same == ROUTER


def test_order_of_floating_ips_does_not_matter():
    mixed = evolve(ROUTER, addresses=(*ROUTER.addresses[:4], *reversed(ROUTER.addresses[4:])))
    assert render_keepalived(mixed) == render_keepalived(ROUTER)


def test_markers_are_different_for_every_virtual_router_id():
    assert str(marker(255)) == "169.254.0.255/32"
    assert len({marker(vrid) for vrid in range(1, 256)}) == 255


@pytest.mark.parametrize(
    "values",
    [
        {"device": "ha-1 }"},
        {"device": ""},
        {"source": "169.254.192.5"},
        {"peers": (ip_interface("fd00::1/64").ip,)},
        {"addresses": virtual("qr 1", "10.0.0.1/24")},
        {"addresses": virtual("qr-1", "fe80::1%x/64")},
        {"addresses": virtual("qr-1", "10.0.0.1/24") * (MAX_ADDRESSES + 1)},
        {"routes": (route("default", via="10.0.0.1", device="a{"),)},
        {"routes": (route("default", via="10.0.0.1"),)},
        {"routes": (route("default", via="10.0.0.1", device="qr-1"),) * (MAX_ROUTES + 1)},
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any]):
    with pytest.raises(InvalidInput):
        evolve(BARE, **values)


@given(st.text(max_size=12))
def test_no_password_becomes_syntax(password: str):
    try:
        settings = VrrpSettings(auth_password=password)
    except InvalidInput:
        return
    lines = render_keepalived(evolve(BARE, settings=settings)).splitlines()
    assert f"        auth_pass {password}" in lines
    plain = len(render_keepalived(BARE).splitlines())
    assert len(lines) == plain + 4


def test_options_have_defaults_and_a_bad_password_is_named():
    options = {option.dest: option.default for option in OPTIONS}
    options["router_confs"] = "/var/lib/x"
    assert read_settings(options).vrrp == VrrpSettings()
    with pytest.raises(ConfigError, match=r"^ha_vrrp_auth_password: has 1 to 8 letters"):
        read_settings({**options, "ha_vrrp_auth_password": "a b"})


def log(*lines: str) -> str:
    return "".join(f"Mon Nov 16 11:57:07 2026: {line}\n" for line in lines)


def refused(reason: str, number: int, message: str = "RTM_NEWROUTE(24)") -> str:
    return f"Netlink: error: {reason}({number}), type={message}, seq=1794830238, pid=0"


@pytest.mark.parametrize("attempt", ["Reloading", "(VR_7) Entering MASTER STATE"])
def test_errors_of_routes_are_those_of_the_last_attempt(attempt: str):
    unreachable, invalid = refused("Network is unreachable", 101), refused("Invalid argument", 22)
    other = refused("File exists", 17, "RTM_NEWADDR(20)")
    assert parse_route_errors(log(unreachable, "Reloading ...")) is None
    assert parse_route_errors(log(attempt, unreachable, attempt, "Reload complete")) == ()
    found = parse_route_errors(log(attempt, unreachable, attempt, invalid, other, unreachable))
    assert found == ("Invalid argument", "Network is unreachable")
