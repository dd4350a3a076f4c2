"""Options of other programs in a file that several programs share."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from oslo_config.cfg import ConfigOpts

from netfw.cli.agents.dhcp import dhcp_groups
from netfw.cli.agents.l2 import l2_groups
from netfw.cli.agents.l3 import l3_groups
from netfw.cli.agents.metadata_components import metadata_groups
from netfw.cli.runtime.installed_options import InstalledPrograms
from netfw.cli.server.components import server_groups
from netfw.conf.loader import Groups, load_config, refuse_misspelt
from netfw.errors import ConfigError
from tests import ROOT

GroupsOf = Callable[[Sequence[str]], Groups]
EVERY_PROGRAM: tuple[GroupsOf, ...] = (
    l2_groups,
    dhcp_groups,
    l3_groups,
    metadata_groups,
    server_groups,
)
OWN = "[DEFAULT]\nstate_path = {0}\n[agent]\nstate_source = {1}\n[file]\npath = {0}/topology.yaml\n"
DAEMON = """
import sys
from netfw.cli.agents.dhcp import dhcp_groups
from netfw.cli.runtime.daemon import run
sys.exit(run("netfw-dhcp-agent", sys.argv[1:], lambda *_: None, dhcp_groups(sys.argv[1:])))
"""


def sample_options() -> Iterator[tuple[str, str]]:
    """Yield every option of samples/conf/netfw.conf with its group."""
    group = ""
    for line in (ROOT / "samples/conf/netfw.conf").read_text().splitlines():
        if found := re.fullmatch(r"\[(.*)\]", line):
            group = found[1]
        elif found := re.match(r"#(\w+) = ?", line):
            yield group, found[1]


def conf_of(groups: GroupsOf, *files: Path) -> ConfigOpts:
    argv = [word for file in files for word in ("--config-file", str(file))]
    return load_config("netfw", argv, groups(argv)).conf


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def is_read(conf: ConfigOpts, group: str, name: str) -> bool:
    if group == "DEFAULT":
        return name in conf
    return group in conf and name in conf[group]


@pytest.mark.parametrize("source", ["file", "server"])
@pytest.mark.parametrize("groups", EVERY_PROGRAM)
def test_options_of_every_other_program_are_ignored(
    tmp_path: Path, groups: GroupsOf, source: str
) -> None:
    own = written(tmp_path / "own.conf", OWN.format(tmp_path, source))
    alone = conf_of(groups, own)
    foreign = [
        f"[{group}]\n{name} = x\n"
        for group, name in sample_options()
        if not is_read(alone, group, name)
    ]
    assert len(foreign) > 20
    shared = conf_of(groups, own, written(tmp_path / "shared.conf", "".join(foreign)))
    assert refuse_misspelt(shared, InstalledPrograms()) == ()


@pytest.mark.parametrize("groups", [dhcp_groups, l3_groups])
def test_a_misspelt_option_of_another_agent_is_refused_with_its_name(
    tmp_path: Path, groups: GroupsOf
) -> None:
    text = OWN.format(tmp_path, "file") + "[agent]\nfirewal_driver = openflow\n"
    conf = conf_of(groups, written(tmp_path / "a.conf", text))
    with pytest.raises(ConfigError, match=r"\[agent\] firewal_driver .* 'firewall_driver'\?$"):
        refuse_misspelt(conf, InstalledPrograms())


def test_a_misspelt_group_is_noticed_beside_groups_of_other_programs(tmp_path: Path) -> None:
    text = OWN.format(tmp_path, "file") + "[dns]\n[dnsmask]\nx = 1\n[identity]\n"
    path = written(tmp_path / "a.conf", text)
    found = refuse_misspelt(conf_of(dhcp_groups, path), InstalledPrograms())
    assert found == (f"{path}: [dnsmask] is not a group, did you mean 'dnsmasq'?",)


def test_a_daemon_starts_with_a_file_that_all_agents_share(tmp_path: Path) -> None:
    text = OWN.format(tmp_path, "file") + (
        "[agent]\nswitch_driver = openvswitch\nfirewall_driver = openflow\n"
        "polling_interval = 2\nrouter_driver = linux\n[openvswitch]\nbridge_mappings = a:br-a\n"
    )
    path = written(tmp_path / "a.conf", text)
    argv = [sys.executable, "-c", DAEMON, "--config-file", str(path)]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
