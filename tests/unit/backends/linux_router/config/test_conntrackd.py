"""The configuration of conntrackd: golden files, refusals, options."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from netfw.errors import ConfigError, InvalidInput
from netfw.model.values.ids import RouterId
from netfw_drivers.linux_router.config.conntrackd import (
    MAX_PATH,
    SOCKET,
    ConntrackdInstance,
    ConntrackdSettings,
    path_problem,
    render_conntrackd,
)
from netfw_drivers.linux_router.config.settings import OPTIONS, read_settings
from netfw_drivers.linux_router.plan.names import CentralPart, config_path
from tests.unit.backends.linux_router.config.golden import check_golden

GOLDEN = Path(__file__).parent / "golden_conntrackd"
INSTANCE = ConntrackdInstance(
    vrid=7,
    device="ha-1",
    source=IPv4Address("169.254.192.5"),
    path=Path("/var/lib/netfw/routers/conntrackd/router.conf"),
    settings=ConntrackdSettings(),
)
CASES = {
    "default": INSTANCE,
    "small": evolve(
        INSTANCE, vrid=255, settings=ConntrackdSettings(hash_size=1024, hash_limit=4096)
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("L3-43")
def test_configuration_is_as_the_golden_file(name: str):
    check_golden(GOLDEN / f"{name}.conf", render_conntrackd(CASES[name]))


def test_there_are_no_other_golden_files():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"device": "ha-1\n}"}, "device"),
        ({"source": IPv6Address("fe80::1")}, "conntrackd needs an IPv4 address"),
        ({"path": Path("/var/lib/net fw/router.conf")}, "other characters"),
        ({"path": Path("/var/lib/net'fw/router.conf")}, "other characters"),
        ({"path": Path("relative/router.conf")}, "other characters"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, Any], why: str):
    with pytest.raises(InvalidInput, match=why):
        evolve(INSTANCE, **values)


def test_longest_path_of_the_socket_is_accepted():
    longest = Path("/" + "x" * (MAX_PATH - len(SOCKET) - 1))
    assert path_problem(longest) is None
    why = path_problem(Path(f"{longest}x"))
    assert why == "the path of its socket would have 108 characters: at most 107"


def test_options_are_read_and_a_long_directory_is_refused():
    options = {option.dest: option.default for option in OPTIONS}
    options["router_confs"] = "/var/lib/x"
    assert read_settings(options).conntrackd is None
    enabled = {**options, "ha_conntrackd_enabled": True, "ha_conntrackd_hashlimit": 10}
    assert read_settings(enabled).conntrackd == ConntrackdSettings(hash_limit=10)
    with pytest.raises(ConfigError, match=r"router_confs: .* at most 107; name another directory"):
        read_settings({**enabled, "router_confs": f"/{'x' * 80}"})


def test_a_directory_that_is_too_long_for_a_central_part_alone_is_refused():
    options = {option.dest: option.default for option in OPTIONS}
    options["ha_conntrackd_enabled"] = True
    central = CentralPart(RouterId(UUID(int=1)))
    for length in range(30, 60):
        directory = Path("/" + "x" * length)
        if path_problem(config_path(directory, "conntrackd", central)) is None:
            continue
        with pytest.raises(ConfigError, match="router_confs"):
            read_settings({**options, "router_confs": str(directory)})
