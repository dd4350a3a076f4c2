"""The configuration of radvd: golden files, checked by radvd itself, and refusals."""

from __future__ import annotations

import os
import shutil
import subprocess
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from netfw.errors import InvalidInput
from netfw_drivers.linux_router.config.radvd import (
    MAX_DNS_SERVERS,
    RadvdInterface,
    RadvdPrefix,
    render_radvd,
)
from tests.unit.backends.linux_router.config.golden import check_golden

GOLDEN = Path(__file__).parent / "golden"
DNS = (IPv6Address("2001:db8::53"), IPv6Address("2001:db8::54"))


def prefix(text: str, *, autonomous: bool = True, removed: bool = False) -> RadvdPrefix:
    return RadvdPrefix(prefix=IPv6Network(text), autonomous=autonomous, removed=removed)


SLAAC = RadvdInterface(
    device="qr-slaac",
    source=IPv6Address("fe80::f816:3eff:fe00:1"),
    mtu=1450,
    prefixes=(prefix("2001:db8:1::/64"),),
)
CASES = {
    "slaac": [evolve(SLAAC, dns_servers=DNS)],
    "stateless": [evolve(SLAAC, other_config=True)],
    "stateful": [
        evolve(
            SLAAC,
            managed=True,
            other_config=True,
            prefixes=(prefix("2001:db8:2::/80", autonomous=False),),
        )
    ],
    "several": [
        evolve(SLAAC, device="qr-b", prefixes=(prefix("2001:db8:4::/64"), prefix("fd00:3::/64"))),
        evolve(SLAAC, device="qr-a", mtu=9000),
    ],
    "removed": [evolve(SLAAC, prefixes=(*SLAAC.prefixes, prefix("2001:db8:9::/64", removed=True)))],
    "name_servers": [
        evolve(SLAAC, dns_servers=tuple(DNS[0] + number for number in range(MAX_DNS_SERVERS)))
    ],
    "no_prefix": [evolve(SLAAC, prefixes=())],
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("L3-26")
def test_configuration_is_as_the_golden_file(name: str):
    check_golden(GOLDEN / f"{name}.conf", render_radvd(CASES[name]))


def test_there_are_no_other_golden_files():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.real
@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("L3-26")
def test_radvd_accepts_the_golden_file(name: str):
    radvd = shutil.which("radvd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert radvd is not None, "install radvd (tools/install-packages)"
    done = subprocess.run(
        [radvd, "--configtest", "-C", GOLDEN / f"{name}.conf", "-m", "stderr"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr


def test_order_of_interfaces_and_prefixes_does_not_matter():
    first, second = CASES["several"]
    turned = evolve(first, prefixes=first.prefixes[::-1])
    assert render_radvd([second, turned]) == render_radvd([first, second])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"device": "qr-1;\n}; evil"}, "device"),
        ({"device": "qr 1"}, "device"),
        ({"source": IPv6Address("2001:db8::1")}, "link-local"),
        ({"source": "fe80::1; }"}, "source"),
        ({"mtu": 1279}, "mtu"),
        ({"mtu": "1500; }"}, "mtu"),
        ({"mtu": True}, "mtu"),
        ({"dns_servers": (IPv4Address("192.0.2.1"),)}, "IPv4"),
        ({"dns_servers": ("::1; }",)}, "dns_servers"),
        ({"dns_servers": DNS[:1] * 17}, "at most 16"),
        ({"prefixes": SLAAC.prefixes * 2}, "twice"),
        (
            {"prefixes": tuple(prefix(f"2001:db8:{n:x}::/64") for n in range(65))},
            "at most 64",
        ),
    ],
)
def test_what_radvd_could_misread_is_refused(change, message):
    with pytest.raises((InvalidInput, AttributeError), match=message):
        evolve(SLAAC, **change)


@pytest.mark.parametrize("bad", ["2001:db8::/65", "2001:db8::/48"])
def test_addresses_cannot_be_made_from_another_length(bad):
    with pytest.raises(InvalidInput, match="SLAAC needs a /64"):
        prefix(bad)


def test_prefix_that_is_text_is_refused():
    with pytest.raises((InvalidInput, AttributeError)):
        RadvdPrefix(prefix="::/0 { }; evil", autonomous=False)  # type: ignore[arg-type]


def test_a_device_is_configured_once():
    with pytest.raises(InvalidInput, match="twice"):
        render_radvd([SLAAC, SLAAC])


@given(st.text(max_size=20))
def test_no_device_name_becomes_syntax(name: str):
    try:
        interface = evolve(SLAAC, device=name)
    except InvalidInput:
        return
    assert render_radvd([interface]).splitlines()[0] == f"interface {name}"
    assert not set(name) & set("{};#\"' \t\n")
