"""Options by name and number, as they go over the wire."""

from __future__ import annotations

import pytest

from netfw.drivers.support.dhcp_options import check_options, option_value, options_for
from netfw.errors import InvalidInput
from netfw.model.values.dhcp_option import DhcpOption


def option(name: str, value: str = "") -> DhcpOption:
    return DhcpOption(name=name, value=value)


@pytest.mark.spec("DHCP-43")
@pytest.mark.parametrize(
    ("name", "value", "number", "coded"),
    [
        ("router", "10.0.0.1", 3, "0a000001"),
        ("dns-server", "10.0.0.1, 10.0.0.2", 6, "0a0000010a000002"),
        ("6", "10.0.0.1", 6, "0a000001"),
        ("mtu", "1450", 26, "05aa"),
        ("26", "1450", 26, "05aa"),
        ("T1", "60", 58, "0000003c"),
        ("T2", "2m", 59, "00000078"),
        ("time-offset", "-1", 2, "ffffffff"),
        ("bootfile-name", "10.0.0.1", 67, b"10.0.0.1".hex()),
        ("tag:!ipxe,67", "a.img", 67, b"a.img".hex()),
        ("domain-search", "a.example, b.", 119, "01610765 78616d706c65 00 01 62 00"),
        ("sip-server", "10.0.0.1, 10.0.0.2", 120, "01 0a000001 0a000002"),
        ("120", "a.example,b", 120, "00 01610765 78616d706c65 00 01 62 00"),
        ("classless-static-route", "10.1.0.0/16,10.0.0.1", 121, "10 0a01 0a000001"),
        ("249", "0.0.0.0/0,10.0.0.1", 249, "00 0a000001"),
        ("224", "text, and more", 224, b"text, and more".hex()),
        ("224", "10.0.0.1", 224, "0a000001"),
        ("224", "300", 224, "012c"),
        ("224", "01:FF", 224, "01ff"),
        ("router", "", 3, ""),
        ("server-ip-address", "10.0.0.1", 255, "0a000001"),
    ],
)
def test_an_option_has_a_number_and_a_value_of_its_form(
    name: str, value: str, number: int, coded: str
) -> None:
    assert option_value(option(name, value)) == bytes.fromhex(coded)
    assert options_for([option(name, value)], ipxe=False) == {number: bytes.fromhex(coded)}


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("bootfile", "x", "name"),
        ("0", "x", "name"),
        ("256", "x", "name"),
        ("54", "10.0.0.1", "name"),
        ("router", "x", "value"),
        ("router", "fd00::1", "value"),
        ("mtu", "70000", "value"),
        ("mtu", "x", "value"),
        ("mtu", "1_000", "value"),
        ("T1", "soon", "value"),
        ("119", "a,,b", "value"),
        ("121", "10.0.0.0/8", "value"),
        ("119", "ä.example", "value"),
        ("120", "10.0.0", "value"),
        ("120", "a_b", "value"),
        ("119", "a" * 64, "value"),
        ("224", "ä" * 128, "value"),
    ],
)
def test_what_no_client_would_understand_is_refused_by_its_field(
    name: str, value: str, field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        option_value(option(name, value))
    assert caught.value.problems.keys() == {field}


def test_an_option_may_be_for_some_clients_only() -> None:
    options = [
        option("tag:ipxe,67", "loop"),
        option("bootfile-name", "a.img"),
        option("tag:!ipxe,66", "tftp"),
        option("mtu", ""),
        option("client-id", "01:02"),
        DhcpOption(name="23", value="fd00::1", ip_version=6),
    ]
    check_options(options)
    assert options_for(options, ipxe=True) == {67: b"loop", 26: b""}
    assert options_for(options, ipxe=False) == {67: b"a.img", 66: b"tftp", 26: b""}


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize(
    ("field", "value"), [("name", "67\n"), ("value", "x\ny"), ("value", 'x"'), ("name", "tag:a,67")]
)
def test_what_a_source_should_not_have_let_pass_is_refused(field: str, value: str) -> None:
    forged = option("67", "x")
    object.__setattr__(forged, field, value)
    with pytest.raises(InvalidInput) as caught:
        check_options([option("66", "x"), forged])
    assert caught.value.problems.keys() == {f"options[1].{field}"}
