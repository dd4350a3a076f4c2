"""Configurations that use a driver's former name."""

from pathlib import Path

import pytest

from netfw.cli.agents.dhcp import dhcp_groups
from netfw.cli.server.components import server_groups
from netfw.errors import ConfigError

PROGRAMS = [
    pytest.param("agent", dhcp_groups, id="agent"),
    pytest.param("server", server_groups, id="server"),
]


def write(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "netfw.conf"
    path.write_text(text)
    return ["--config-file", str(path)]


@pytest.mark.spec("RPC-01")
@pytest.mark.parametrize(("group", "read"), PROGRAMS)
def test_former_name_of_the_transport_is_refused_with_the_new_one(tmp_path, group, read):
    with pytest.raises(ConfigError) as refused:
        read(write(tmp_path, f"[{group}]\ntransport = local\n"))
    assert str(refused.value) == (
        f"[{group}] transport = local: this driver is now called 'socket': "
        "write 'transport = socket', and its options under [socket]"
    )


@pytest.mark.spec("RPC-01")
@pytest.mark.parametrize(("group", "read"), PROGRAMS)
def test_transport_options_under_the_former_group_are_refused(tmp_path, group, read):
    argv = write(tmp_path, "[local]\nconnect = unix:/a\nglobal_physnet_mtu = 1500\ntls-ca = /b\n")
    with pytest.raises(ConfigError) as refused:
        read(argv)
    assert str(refused.value) == (
        f"{argv[1]}: [local] connect: write it under [socket]; "
        f"{argv[1]}: [local] tls-ca: write it under [socket]"
    )


@pytest.mark.parametrize(("group", "read"), PROGRAMS)
def test_group_of_the_segment_type_local_stays(tmp_path, group, read):
    groups = read(write(tmp_path, "[local]\nglobal_physnet_mtu = 1500\n"))
    assert "connect" in {option.dest for option in groups["socket"]}
