"""What is refused, by which field; and that nothing else ever is more than one line."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from netfw.drivers.dhcp import DhcpLocation
from netfw.drivers.support.dhcp_option_text import check_option
from netfw.drivers.support.dhcp_options import find_option
from netfw.errors import InvalidInput
from netfw.model.values.dhcp_option import DhcpOption
from netfw.model.values.route import Route
from netfw_drivers.dnsmasq.config.dhcp_hosts import ignore_line, is_tagged
from netfw_drivers.dnsmasq.config.render import PortText, needs_reload, render_network, render_port
from tests.unit.backends.dnsmasq.config.cases import (
    NETWORK,
    PLACE,
    PLAIN,
    PORT,
    SETTINGS,
    V4,
    V6,
    a_network,
    a_port,
    a_subnet,
    option,
)

HOSTILE = (
    "x\ndhcp-script=/bin/sh", "x\r\nconf-file=/etc/passwd", "x\0y", "x\x1b[2J", "x\u2028y", "é",
    'x"y', " x", "x ", "x #y", "#x", "",
)  # fmt: skip
NAMES = (
    *HOSTILE[:-1], "-x", "x-", "x,y", "x y", "x=y", "[::1]", "../x", "a..b", "x_y", "Xn--4ca",
    "ignore", "infinite", "12h", "10.0.0.1", "a" * 64, ".".join(["a" * 60] * 5),
)  # fmt: skip
DOT_FREE = evolve(SETTINGS, domain="")
VALUES = {
    "router": (
        "[10.0.0.1]",
        "10.0.0",
        "10.0.0.1/24",
        "10.0.0.1,",
        "gw",
        "10.0.0.1 10.0.0.2",
    ),
    "mtu": ("-1", "65536", "1e3", "0x5dc", "1500,1501"),
    "time-offset": ("2147483648", "--1", "1-1"),
    "t1": ("12x", "-1", "99999999999", "1h 2m", "9999999w"),
    "classless-static-route": ("10.0.0.0/8", "10.0.0.1/8,10.0.0.2", "::/0,10.0.0.2", "x,y"),
    "domain-search": ("a..b", "a b", "-a", "a,,b", "xn--4ca.ORG"),
    "sip-server": ("1.2", "10.0.0", "a_b"),
    "43": ("7", "12b", "1.2", "0a:ff:", "0a:fff"),
    "224": ("1.2", "10.0.0", "5-3", "2147483648", "0a:", ":", "1::2", "10.0.0.0/8"),
    "bootfile-name": ("x" * 256,),
    "42": ("1.2.3.4," * 63 + "1.2.3.4",),
}
VALUES6 = {
    "dns-server": ("10.0.0.1", "2001:db8::1%eth0", "[2001:db8::1", "x", "fd00::1 fd00::2"),
    "bootfile-param": ("a,,b", "a, b"),
    "ntp-server": ("a b", "1::2::3"),
    "99": ("fd00::1", "0a:", "[fd00::1],x", "5-3"),
    "59": ("x" * 801,),
}
NUMBERS = {4: ("0", "50", "51", "53", "54", "82", "256", "no-such"), 6: ("2", "3", "25", "65536")}


def forged(name: str, value: str, version: int = 4) -> DhcpOption:
    """Return an option as a source that checks nothing could send it."""
    made = DhcpOption(name="mtu", value="1500")
    for field, text in (("name", name), ("value", value), ("ip_version", version)):
        object.__setattr__(made, field, text)
    return made


def refused(**port: Any) -> set[str]:
    """Return the fields for which a port is refused."""
    settings = port.pop("settings", SETTINGS)
    with pytest.raises(InvalidInput) as caught:
        render_port(PORT, a_port((V4, 5), (V6, 5), **port), a_network(V4, V6), settings)
    return set(caught.value.problems)


@pytest.mark.parametrize("text", NAMES)
def test_a_name_that_is_none_is_refused(text: str) -> None:
    assert refused(hostname=text, settings=DOT_FREE) == {"hostname"}


@pytest.mark.parametrize("text", [*HOSTILE[:-1], "a..b", "-a", "a,b", "Xn--4ca"])
def test_a_domain_that_is_none_is_refused(text: str) -> None:
    assert refused(domain=text) == {"domain"}
    with pytest.raises(InvalidInput) as caught:
        render_network(NETWORK, evolve(PLAIN, dns_domain=text), PLACE, SETTINGS)
    assert set(caught.value.problems) == {"dns_domain"}


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_hostile_options_are_refused_of_ports_and_networks(text: str) -> None:
    asked = (
        forged("bootfile-name", text), forged(text, "x"), forged(f"tag:{text},67", "x"),
        forged("224", text), forged("client-id", text),
    )  # fmt: skip
    for bad in asked:
        (field,) = refused(options=(option("42", "1.2.3.4"), bad))
        assert field in ("options[1].name", "options[1].value")
        if bad.name != "client-id":
            with pytest.raises(InvalidInput):
                render_network(NETWORK, evolve(PLAIN, options=(bad,)), PLACE, SETTINGS)


@pytest.mark.parametrize(
    ("name", "value", "version"),
    [
        (name, value, version)
        for version, table in ((4, VALUES), (6, VALUES6))
        for name, values in table.items()
        for value in values
    ],
)
def test_values_that_an_option_cannot_have_are_refused(name: str, value: str, version: int) -> None:
    bad = forged(name, value, version)
    assert refused(options=(bad,)) == {"options[0].value"}
    with pytest.raises(InvalidInput) as caught:
        check_option(bad)
    assert set(caught.value.problems) == {"value"}, "the server does not let it pass"


NUMBERED = st.integers(1, 255).map(str)
LIKELY = st.text("0123456789abf:.,/-[] é", max_size=20).map(str.strip)


@given(
    st.builds(
        forged,
        NUMBERED | st.sampled_from(["mtu", "client-id", "router", "domain-search", "t1"]),
        LIKELY,
        st.sampled_from([4, 6]),
    )
)
@example(forged("bootfile-name", "caf\u00e9"))
@example(forged("mtu", "-5"))
@example(forged("252", "4294967296"))
@example(forged("59", "\u00e9", 6))
def test_no_option_that_the_server_accepts_is_refused_by_the_driver(asked: DhcpOption) -> None:
    try:
        check_option(asked)
    except InvalidInput:
        return
    render_port(PORT, a_port((V4, 5), (V6, 5), options=(asked,)), a_network(V4, V6), SETTINGS)


@pytest.mark.parametrize(
    ("version", "name"), [(v, n) for v, names in NUMBERS.items() for n in names]
)
def test_options_of_the_protocol_and_unknown_ones_are_refused(version: int, name: str) -> None:
    assert refused(options=(option(name, "1", version),)) == {"options[0].name"}


@pytest.mark.parametrize("value", ["*", "a b", "a,b", "set:x", "01:", ""])
def test_a_client_identifier_is_one_word(value: str) -> None:
    assert refused(options=(forged("client-id", value),)) == {"options[0].value"}


def test_all_faults_are_named_at_once() -> None:
    asked = (option("mtu", "x"), option("42", "1.2.3.4"), option("no-such", "1"))
    assert refused(options=asked) == {"options[0].value", "options[2].name"}


def test_an_option_is_not_left_out_for_some_clients_or_if_all_need_it() -> None:
    assert refused(options=(option("tag:ipxe,67", ""), option("mtu", ""))) == {
        "options[0].value", "options[1].value",
    }  # fmt: skip


def test_invalid_network_options_are_refused_without_a_subnet_that_uses_them() -> None:
    bad = evolve(PLAIN, options=(option("dns-server", "10.0.0.1", 6),))
    with pytest.raises(InvalidInput) as caught:
        render_network(NETWORK, bad, PLACE, SETTINGS)
    assert set(caught.value.problems) == {"options[0].value"}


def test_ipv6_value_of_an_ipv4_option_is_not_advertised() -> None:
    network = evolve(PLAIN, options=(option("router", "2001:db8::1"),))
    plain = render_network(NETWORK, PLAIN, PLACE, SETTINGS)
    assert render_network(NETWORK, network, PLACE, SETTINGS) == plain


def test_more_routes_and_name_servers_than_fit_are_left_out() -> None:
    routes = [Route(destination=f"192.0.{n}.0/24", nexthop="10.4.0.9") for n in range(40)]
    dns = [f"2001:db8:aaaa:bbbb:cccc:dddd:eeee:{n:x}" for n in range(0x1000, 0x1050)]
    subnets = (evolve(V6, dns_nameservers=dns), a_subnet(host_routes=routes))
    text = render_network(NETWORK, a_network(*subnets), PLACE, SETTINGS).opts
    assert "192.0.0.0/24" in text
    assert all(len(line) < 1024 for line in text.splitlines())


def test_a_device_with_a_strange_name_is_refused() -> None:
    with pytest.raises(InvalidInput):
        render_network(NETWORK, PLAIN, DhcpLocation(netns="x", device="tap,lo"), SETTINGS)


@given(
    name=st.sampled_from(["67", "224", "domain-search", "43", "sip-server", "router", "121"]),
    value=st.text(max_size=80) | st.text('0123456789abf:.,/[]-# "\\', max_size=30),
    hostname=st.just("") | st.text(max_size=20),
)
@example(name="224", value="option:router,1.2.3.4", hostname="")
@example(name="67", value="tag:x,option:router,1.2.3.4", hostname="")
def test_whatever_is_not_refused_is_one_line_with_that_value(
    name: str, value: str, hostname: str
) -> None:
    port = a_port((V4, 5), hostname=hostname, options=(forged(name, value),))
    try:
        text = render_port(PORT, port, PLAIN, SETTINGS)
    except InvalidInput:
        return
    code = find_option(4, name).code
    assert text.opts.isprintable() or text.opts.endswith("\n")
    if value:
        (line,) = text.opts.splitlines()
        rendered = line.removeprefix(f"tag:port-{PORT},{code},")
        assert rendered.replace(" ", "") == value.replace(" ", "")
    assert len(text.host.splitlines()) == len(text.names.splitlines()) == 1


def test_ignored_mac_takes_precedence_over_a_host_entry() -> None:
    text = render_port(PORT, a_port((V4, 5)), PLAIN, SETTINGS)
    assert ignore_line("fa:16:3e:00:00:0a") == "fa:16:3e:00:00:0a,tag:!none,ignore\n"
    assert all(",tag:!none," in line for line in text.host.splitlines())


def test_only_ports_with_options_of_their_own_are_tagged() -> None:
    plain = render_port(PORT, a_port((V4, 5)), PLAIN, SETTINGS)
    special = render_port(PORT, a_port((V4, 5), options=(option("67", "x"),)), PLAIN, SETTINGS)
    spared = render_port(PORT, a_port((V4, 5), options=(option("67", ""),)), PLAIN, SETTINGS)
    assert [is_tagged(text.host) for text in (plain, special, spared)] == [False, True, True]


def test_files_are_read_anew_only_where_dnsmasq_keeps_what_contradicts_them() -> None:
    before = PortText(host="a\n", opts="b\n", names="c\n")
    assert not needs_reload(None, before)
    assert not needs_reload(before, before)
    assert not needs_reload(before, evolve(before, names="d\n"))
    assert not needs_reload(PortText(names="c\n"), before)
    assert not needs_reload(before, None), "a tombstone does"
    assert needs_reload(before, evolve(before, host="d\n"))
    assert needs_reload(before, evolve(before, opts="d\n"))
