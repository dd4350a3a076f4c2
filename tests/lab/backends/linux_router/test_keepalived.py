"""A real keepalived with the golden configurations."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.linux import netns
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddAddress, AddVeth, SetSysctl, SetUp
from netfw.linux.ip.values import PROTOCOL_KEEPALIVED, addresses
from netfw.linux.process import ProcessKey, Program, Supervisor
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.lab.backends.linux_router.ha_instances import sent_frames
from tests.unit.backends.linux_router.config.test_keepalived import CASES, GOLDEN

KEY = ProcessKey("keepalived", "router")
NETNS = "router"


@pytest.fixture
def namespace() -> Iterator[NetlinkClient]:
    """Yield a namespace with the devices of the golden files."""
    sandbox.require()
    netns.create(NETNS)
    with NetlinkClient(NETNS) as network:
        network.apply([SetSysctl("net.ipv6.conf.default.addr_gen_mode", "1")])
        for name in ("ha-1", "qr-1", "qg-1"):
            network.apply([AddVeth(name=name, peer=f"{name}p"), SetUp(name), SetUp(f"{name}p")])
        network.apply([AddAddress(each) for each in addresses("ha-1", ["169.254.192.5/18"])])
        yield network
    netns.delete(NETNS)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("L3-40")
def test_keepalived_accepts_the_golden_file(name: str, namespace: NetlinkClient, tmp_path: Path):
    log = tmp_path / "log"
    words = ["keepalived", f"--config-test={log}", "--vrrp", "--use-file"]
    checked = netns.run_in(
        NETNS, subprocess.run, [*words, str(GOLDEN / f"{name}.conf")], check=False
    )
    lines = log.read_text().splitlines() if log.exists() else []
    assert not [line for line in lines if "cannot track route" not in line]
    assert checked.returncode == 0 or lines


@pytest.mark.spec("L3-40")
def test_active_instance_has_the_configured_addresses_and_routes(
    namespace: NetlinkClient, tmp_path: Path
):
    file = tmp_path / "routes.conf"
    text = (GOLDEN / "routes.conf").read_text()
    file.write_text(text.replace("advert_int 2", "advert_int 1"))
    argv = ("keepalived", "--dont-fork", "--log-console", "--vrrp", "--use-file", str(file))
    pids = ("--pid", f"{file}.own-pid", "--vrrp_pid", f"{file}.vrrp-pid")
    wanted = {route.destination: route for route in CASES["routes"].routes}
    with Supervisor(tmp_path / "pids", lambda event: None) as supervisor:
        supervisor.start(KEY, Program(argv=(*argv, *pids), namespace=NETNS))
        wait_until(lambda: len(_routes(namespace)) == len(wanted))
        found = {route.destination: route for route in _routes(namespace)}
        assert found.keys() == wanted.keys()
        for destination, route in wanted.items():
            assert set(found[destination].hops) == set(route.hops)
        there = {(each.address.device, each.address.interface) for each in namespace.addresses()}
        assert there >= set(map(tuple, CASES["routes"].addresses))
        supervisor.stop(KEY)
    assert not _routes(namespace)


@pytest.mark.spec("L3-43")
def test_start_beside_the_routes_of_a_killed_process_looks_up_no_name(
    namespace: NetlinkClient, tmp_path: Path
):
    # It would wait for an answer, and be silent while another instance becomes active.
    namespace.apply([AddAddress(each) for each in addresses("qg-1", ["203.0.113.2/24"])])
    for words in (
        "route add default via 203.0.113.1",
        "neigh add 203.0.113.1 lladdr 02:00:00:00:00:01 dev qg-1",
    ):
        netns.run_in(NETNS, subprocess.run, ["ip", *words.split()], check=True)
    script = 'hostname absent.example.org && exec keepalived "$@"'
    options = ("--dont-fork", "--log-console", "--vrrp", "--use-file", str(GOLDEN / "bare.conf"))
    pids = ("--pid", f"{tmp_path}/own-pid", "--vrrp_pid", f"{tmp_path}/vrrp-pid")
    argv = ("unshare", "--uts", "sh", "-c", script, "keepalived", *options, *pids)
    log = tmp_path / "log"
    program = Program(argv=argv, namespace=NETNS, log=log)
    with sent_frames(NETNS) as sent, Supervisor(tmp_path, lambda event: None) as supervisor:
        supervisor.start(KEY, program)
        wait_until(lambda: "Entering BACKUP STATE" in log.read_text(), log.read_text)
        supervisor.stop(KEY)
        assert not any(each.is_name_query for each in sent())


def _routes(network: NetlinkClient):
    return [each for each in network.static_routes() if each.protocol == PROTOCOL_KEEPALIVED]
