"""The address that tunnels begin at, as an option says it."""

from __future__ import annotations

import pytest

from netfw.errors import ConfigError
from netfw_drivers.ovs.switch.options import OPTIONS, settings_from


def settings(local_ip: str) -> object:
    values = {option.dest: option.default for option in OPTIONS}
    return settings_from({**values, "tunnel_types": ["vxlan"], "local_ip": local_ip})


def test_tunnels_begin_at_an_address_without_a_scope_which_is_free_text():
    settings("fe80::1")
    for scope in "eth0", "x,output:1", "\n":
        with pytest.raises(ConfigError, match="with a scope"):
            settings(f"fe80::1%{scope}")
