"""The defaults of the options are the defaults of the plugins."""

from __future__ import annotations

from attrs import fields_dict

from netfw.conf import plugin, scheduling
from netfw.model.segment import NetworkType
from netfw.server.core.settings import Settings
from netfw_drivers.extension_drivers.dns import DnsDriver
from netfw_drivers.type_drivers.mtu import GLOBAL_MTU, PHYSICAL_MTUS, TUNNEL_OPTIONS


def test_defaults_of_options_and_of_settings_are_the_same() -> None:
    options = (*plugin.PLUGINS, *plugin.ML2, *scheduling.SCHEDULING)
    known, settings = fields_dict(Settings), Settings()
    compared = set()
    for option in options:
        if option.dest in known:
            value = option.default
            if option.dest == "tenant_network_types":
                value = tuple(map(NetworkType, value))
            value = tuple(value) if isinstance(value, list) else value
            assert value == getattr(settings, option.dest), option.dest
            compared.add(option.dest)
    assert compared >= {"base_mac", "tenant_network_types", "max_dns_nameservers"}


def test_what_all_drivers_share_has_one_default() -> None:
    own = {option.dest: option.default for option in (*plugin.PLUGINS, *plugin.ML2)}
    for option in (GLOBAL_MTU, PHYSICAL_MTUS, *TUNNEL_OPTIONS, *DnsDriver.OPTIONS):
        assert own[option.dest] == option.default, option.dest
