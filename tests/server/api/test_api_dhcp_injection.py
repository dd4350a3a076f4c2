"""What would be syntax in a DHCP server's files is refused at the API, and the field is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.api.environment import Client

OPTION = "extra_dhcp_opts[1]"
HOSTILE_VALUES = [
    "1.1.1.1\ndhcp-script=/bin/sh",
    "1.1.1.1\r\n",
    "\0",
    "\u2028",
    '"',
    '1.1.1.1"',
    "a\\",
    "a\\nb",
    "# all of it",
    "x #rest",
    "x\u00a0#rest",
    " x",
    "x ",
    "x" * 256,
]
HOSTILE_NAMES = ["", "67,evil", "tag:x", "option:67", "set:x,67", "a b", "6\n", "#67", 'a"']
HOSTILE_DNS = ["a\nb", "a,b", "a b", "a#b", 'a"', "a\\b", "a/b", "*", "[::1]", "x" * 64, "a..b"]
HOSTILE_DNS += ["ab--C", "x.Ab--c"]  # dnsmasq takes them for internationalised names


def option(name: str = "67", value: str | None = "x") -> dict[str, Any]:
    return {"opt_name": name, "opt_value": value}


def refused(client: Client, collection: str, field: str, **attributes: Any) -> None:
    """Check that a request is refused with 400 and an error that names only the field."""
    before = client.list(collection)
    reply = client.post(collection, {collection.removesuffix("s"): attributes})
    assert reply.status == 400, reply.data
    assert field in reply.error["message"]
    assert len(reply.error["message"]) < 400
    assert "\n" not in reply.error["message"]
    assert client.list(collection) == before


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("value", HOSTILE_VALUES)
def test_a_value_of_an_option_is_no_syntax(client: Client, value: str) -> None:
    options = [option(), option("66", value)]
    network = client.network()["id"]
    refused(client, "networks", f"{OPTION}.opt_value", extra_dhcp_opts=options)
    refused(client, "ports", f"{OPTION}.opt_value", network_id=network, extra_dhcp_opts=options)
    port = client.make("ports", network_id=network, extra_dhcp_opts=[option()])
    for collection, known in (("networks", network), ("ports", port["id"])):
        body = {collection.removesuffix("s"): {"extra_dhcp_opts": options}}
        reply = client.put(f"{collection}/{known}", body)
        assert reply.status == 400, reply.data
        assert f"{OPTION}.opt_value" in reply.error["message"]


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_name_of_an_option_is_no_syntax(client: Client, name: str) -> None:
    options = [option(), option(name)]
    network = client.network()["id"]
    refused(client, "networks", f"{OPTION}.opt_name", extra_dhcp_opts=options)
    refused(client, "ports", f"{OPTION}.opt_name", network_id=network, extra_dhcp_opts=options)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("opt_name", {"opt_name": "boot-file", "opt_value": "x"}),
        ("opt_name", {"opt_name": "54", "opt_value": "10.0.0.1"}),
        ("opt_name", {"opt_name": "router", "opt_value": "fd00::1", "ip_version": 6}),
        ("opt_value", {"opt_name": "mtu", "opt_value": "large"}),
        ("opt_value", {"opt_name": "tag:ipxe,dns-server", "opt_value": "one.example"}),
        ("opt_value", {"opt_name": "client-id", "opt_value": "a b"}),
        ("opt_value", {"opt_name": "61", "opt_value": "a,b"}),
        ("opt_value", {"opt_name": "client-id", "opt_value": ""}),
        ("opt_value", {"opt_name": "netmask", "opt_value": ""}),
        ("opt_value", {"opt_name": "tag:evil,bootfile-name", "opt_value": ""}),
    ],
)
def test_dhcp_option_that_no_client_could_get_is_refused(
    client: Client, field: str, options: dict[str, Any]
) -> None:
    asked = [option(), options]
    network = client.network()["id"]
    refused(client, "networks", f"{OPTION}.{field}", extra_dhcp_opts=asked)
    refused(client, "ports", f"{OPTION}.{field}", network_id=network, extra_dhcp_opts=asked)


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("name", HOSTILE_DNS)
def test_a_dns_name_is_no_syntax(client: Client, name: str) -> None:
    network = client.network()["id"]
    refused(client, "networks", "dns_domain", dns_domain=name)
    for field in ("dns_name", "dns_domain"):
        refused(client, "ports", field, network_id=network, **{field: name})


@pytest.mark.parametrize("name", ["wpad", "WPAD", "wpad.example.org.", "isatap", "localhost"])
def test_names_that_hosts_look_up_by_themselves_are_refused(client: Client, name: str) -> None:
    network = client.network()["id"]
    refused(client, "ports", "dns_name", network_id=network, dns_name=name)


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("mac", ["fa:16:3e:00:00:01\n", "fa:16:3e:00:00:01,ignore", "*", "#"])
def test_a_mac_address_is_no_syntax(client: Client, mac: str) -> None:
    admin = client.as_("admins/admin")
    refused(admin, "ports", "mac_address", network_id=admin.network()["id"], mac_address=mac)


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize(
    "value",
    ["", "10.0.0.1,10.0.0.2", "http://[2001:db8::1]/x?a=b;c#d", "10.0.0.0/8,10.0.0.1", "a b'c"],
)
def test_values_that_clients_need_are_taken(client: Client, value: str) -> None:
    kept = [{**option(value=value), "ip_version": 4}]
    network = client.network(extra_dhcp_opts=kept)
    assert network["extra_dhcp_opts"] == kept
    port = client.make("ports", network_id=network["id"], extra_dhcp_opts=kept)
    assert port["extra_dhcp_opts"] == kept


def test_an_option_of_a_network_is_there_once_and_has_a_value(client: Client) -> None:
    refused(client, "networks", OPTION, extra_dhcp_opts=[option(), option(value="y")])
    refused(client, "networks", OPTION, extra_dhcp_opts=[option(), option("66", None)])


def test_an_ipv6_address_for_clients_of_no_family_is_taken(client: Client) -> None:
    # Clients of the API may leave out ``ip_version``, and have always been able to.
    asked = option("server-ip-address", "2015::badd")
    port = client.make("ports", network_id=client.network()["id"], extra_dhcp_opts=[asked])
    assert port["extra_dhcp_opts"] == [{**asked, "ip_version": 4}]


def test_zero_mac_address_is_refused_for_a_port(client: Client) -> None:
    network = client.network()["id"]
    refused(client, "ports", "mac_address", network_id=network, mac_address="00:00:00:00:00:00")
