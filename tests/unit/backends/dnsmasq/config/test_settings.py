"""Options of the driver, and where its files are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netfw.errors import ConfigError
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.settings import OPTIONS, Settings, settings_from
from tests.unit.backends.dnsmasq.config.cases import NETWORK, PORT


def options(**changes: Any) -> dict[str, Any]:
    return {option.name: option.default for option in OPTIONS} | changes


@pytest.mark.spec("DHCP-01")
def test_options_have_the_names_that_operators_know() -> None:
    names = {
        "dhcp_confs", "dhcp_lease_duration", "dhcp_domain", "dnsmasq_dns_servers",
        "dnsmasq_config_file", "dnsmasq_lease_max", "dhcp_broadcast_reply", "dnsmasq_base_log_dir",
    }  # fmt: skip
    assert names <= {option.name for option in OPTIONS}


def test_without_options_the_settings_are_those_of_no_configuration() -> None:
    assert settings_from(options()) == Settings()


def test_options_become_settings() -> None:
    asked = options(
        dhcp_confs="/x", dhcp_lease_duration=-1, dhcp_domain="cloud.",
        dnsmasq_dns_servers=["192.0.2.53", "2001:DB8::53#5353"], dhcp_renewal_time=100,
        dhcp_rebinding_time=200,
    )  # fmt: skip
    assert settings_from(asked) == Settings(
        confs=Path("/x"), lease=-1, domain="cloud", renewal=100, rebinding=200,
        dns_servers=("192.0.2.53", "2001:db8::53#5353"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dhcp_lease_duration", 60),
        ("dhcp_lease_duration", 0),
        ("dhcp_lease_duration", 1 << 31),
        ("dhcp_confs", "relative"),
        ("dnsmasq_config_file", "/x\ny"),
        ("dhcp_domain", "a b"),
        ("dnsmasq_dns_servers", ["ns.example.org"]),
        ("dnsmasq_dns_servers", ["192.0.2.53#0"]),
        ("dnsmasq_dns_servers", ["fe80::1%eth0"]),
        ("dhcp_renewal_time", 86400),
        ("dhcp_renewal_time", 80000),
        ("dhcp_renewal_time", 75600),
        ("dhcp_rebinding_time", 90000),
    ],
)
def test_what_cannot_be_is_said_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        settings_from(options(**{name: value}))


@pytest.mark.spec("DHCP-40")
def test_files_are_where_operators_look_for_them() -> None:
    files = NetworkPaths(Path("/dhcp"), NETWORK)
    below = {
        name: str(getattr(files, name).relative_to(f"/dhcp/{NETWORK}"))
        for name in ("host", "addn_hosts", "opts", "leases", "interface", "pid")
    }
    assert below == {name: name for name in below}
    assert files.network_opts == files.opts / "network"
    assert files.host_of(PORT) == files.host / str(PORT)
