"""What the lab decides, without a lab."""

from __future__ import annotations

import errno
import os
from ipaddress import ip_interface
from pathlib import Path

import pytest

from netfw.errors import BackendBroken, ConfigError, InvalidInput
from netfw.testing.lab import prerequisites, registry, sandbox, topology
from netfw.testing.lab.instance import InstanceDevice, Plug
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.openvswitch import outputs_of
from netfw.testing.lab.ping import Ping
from netfw.testing.lab.topology import LabTopology, Placed

pytestmark = pytest.mark.spec("DRV-32")

DENIED = OSError(errno.EPERM, "Operation not permitted")


def test_ubuntus_restriction_is_named_with_its_switch_and_sudo() -> None:
    output = prerequisites.explain(
        DENIED, 1000, {prerequisites.APPARMOR: "1", prerequisites.LIMIT: "100"}
    )
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in output
    assert "use sudo" in output
    assert prerequisites.LIMIT not in output


@pytest.mark.parametrize(
    ("error", "settings", "switch"),
    [
        (DENIED, {prerequisites.CLONE: "0"}, "kernel.unprivileged_userns_clone=1"),
        (OSError(errno.ENOSPC, "No space"), {}, "user.max_user_namespaces=10000"),
        (DENIED, {prerequisites.LIMIT: "0"}, "user.max_user_namespaces=10000"),
    ],
)
def test_a_switched_off_kernel_feature_is_named(
    error: OSError, settings: dict[str, str], switch: str
) -> None:
    assert f"sysctl -w {switch}" in prerequisites.explain(error, 1000, settings)


def test_without_a_known_reason_sudo_is_still_offered() -> None:
    assert prerequisites.explain(DENIED, 1000, {}).endswith("use sudo")


def test_root_without_capabilities_is_reported() -> None:
    assert "CAP_SYS_ADMIN" in prerequisites.explain(DENIED, 0, {})


def test_missing_programs_come_with_the_packages_to_install() -> None:
    assert prerequisites.missing_programs(["ovs-vsctl", "ip", "ovs-vswitchd"]) == [
        "not installed: ip, ovs-vsctl, ovs-vswitchd (apt install iproute2 openvswitch-switch)"
    ]
    assert prerequisites.missing_programs([]) == []


def test_tun_device_without_access_is_reported_with_the_remedy() -> None:
    (output,) = prerequisites.unusable_tun(errno.EACCES, ordinary=True)
    assert "/dev/net/tun" in output
    assert "sudo" in output
    assert "modprobe tun" in prerequisites.unusable_tun(errno.ENOENT, ordinary=False)[0]
    assert "container" in prerequisites.unusable_tun(errno.EPERM, ordinary=False)[0]
    assert prerequisites.unusable_tun(0, ordinary=True) == []


def test_all_missing_tools_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites, "search_path", lambda: "/nowhere")
    with pytest.raises(BackendBroken, match=r"ip, ovs-appctl.*apt install iproute2 openvswitch"):
        prerequisites.require_tools()


def test_system_directories_are_searched_also_for_users_without_them() -> None:
    assert {"/usr/sbin", "/sbin"} <= set(prerequisites.search_path().split(":"))


def test_a_variable_that_strayed_from_a_sandbox_is_no_sandbox(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(sandbox.INSIDE, "1")
    assert not sandbox.inside()
    with pytest.raises(RuntimeError, match="run pytest with --sandbox"):
        sandbox.require()


def test_a_lab_refuses_to_start_outside_of_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sandbox.INSIDE, raising=False)
    with pytest.raises(RuntimeError, match="machine's own network"):
        Lab().__enter__()


@pytest.mark.parametrize("hosts", [0, -1, 251])
def test_a_lab_has_a_sensible_number_of_hosts(hosts: int) -> None:
    with pytest.raises(ConfigError, match="1 to 250 hosts"):
        Lab(hosts=hosts)


TRACE = """\
Flow: in_port=tap1

bridge("br-int")
----------------
 0. priority 0
    output:tap2

Datapath actions: push_vlan(vid=3,pcp=0),tap2,pop_vlan,ct(zone=5),recirc(0x1)

recirc(0x1) - resume conntrack
Datapath actions: clone(tnl_push(tnl_port(vxlan_sys_4789),header(size=50,type=4),\
out_port(br-phy)),eth0),tap-3
"""


def test_a_packet_leaves_by_the_devices_of_every_pass() -> None:
    devices = frozenset({"tap1", "tap2", "tap-3", "eth0", "br-phy", "vxlan_sys_4789"})
    assert outputs_of(TRACE, devices) == {"tap2", "tap-3", "eth0", "vxlan_sys_4789"}


def test_a_dropped_packet_leaves_by_nothing() -> None:
    assert outputs_of("Datapath actions: drop\n", frozenset({"drop1", "tap1"})) == frozenset()


def test_a_row_of_pings_tells_loss_times_and_outage() -> None:
    ping = Ping((0.1, None, None, 0.3, None), 0.5)
    assert (ping.sent, ping.received, ping.lost) == (5, 2, 3)
    assert ping.rtt == pytest.approx(0.2)
    assert (ping.longest, ping.outage) == (0.3, 1.0)


def test_no_answer_has_no_time() -> None:
    assert (Ping((None,), 1).rtt, Ping((None,), 1).longest) == (None, None)


def test_an_outage_by_the_clock_includes_delays_of_the_sender() -> None:
    ping = Ping((0.1, None, None, 0.3, None), 0.5, (10.0, 10.5, 13.0, 13.5, 14.0))
    assert (ping.outage, ping.outage_by_clock) == (1.0, 3.0)
    assert Ping((0.1, None), 0.5, (10.0, 10.5)).outage_by_clock == 0
    assert Ping((None, None), 0.5, (10.0, 10.7)).outage_by_clock == pytest.approx(0.7)


def test_a_topology_document_becomes_a_topology() -> None:
    text = """
    hosts = 3
    provider = ["physnet1"]

    [[instances]]
    name = "vm1"
    host = "host3"
    bridge = "br-int"
    kind = "internal"
    addresses = ["10.0.0.1/24", "fd00::1/64"]
    tag = 7

    [[instances]]
    name = "vm2"
    """
    plug = Plug(
        bridge="br-int",
        device="tap-vm1",
        kind=InstanceDevice.INTERNAL,
        addresses=(ip_interface("10.0.0.1/24"), ip_interface("fd00::1/64")),
        tag=7,
    )
    assert topology.parse(text) == LabTopology(
        hosts=3,
        provider=("physnet1",),
        instances=(Placed("vm1", "host3", plug), Placed("vm2", "host1")),
    )


def test_all_topology_errors_are_reported_with_their_paths() -> None:
    with pytest.raises(InvalidInput) as refused:
        topology.read(
            {
                "hosts": 1,
                "mtu": "big",
                "colour": "red",
                "instances": [
                    {"name": "a", "host": "host2", "addresses": ["10.0.0.1/24", "x"]},
                    {"kind": "tap", "external_ids": {"a": 1}},
                    "vm",
                ],
            }
        )
    assert set(refused.value.problems) == {
        "mtu",
        "colour",
        "instances[0].host",
        "instances[0].addresses[1]",
        "instances[1].name",
        "instances[1].kind",
        "instances[1].external_ids",
        "instances[2]",
    }


def test_document_that_is_not_toml_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not TOML"):
        topology.parse("hosts = ")


@pytest.mark.parametrize("name", ["", "../x", "A", "a b", "-x", "x" * 32])
def test_names_of_labs_are_fit_for_files(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be called"):
        registry.check_name(name)


def test_a_record_is_alive_while_that_very_process_runs() -> None:
    known = registry.identify("lab", os.getpid())
    assert known.alive()
    assert not registry.LabRecord(name="lab", pid=known.pid, started=1, boot=known.boot).alive()
    assert not registry.LabRecord(
        name="lab", pid=known.pid, started=known.started, boot="another"
    ).alive()


def test_a_reused_pid_is_not_opened() -> None:
    known = registry.identify("lab", os.getpid())
    assert (
        registry.LabRecord(name="l", pid=known.pid, started=1, boot=known.boot).open_process()
        is None
    )


def test_record_of_a_dead_lab_is_removed_when_read(tmp_path) -> None:
    directory = registry.LabRegistry(tmp_path)
    known = registry.identify("lab", os.getpid())
    directory.write(known)
    assert directory.find("lab") == known
    directory.write(registry.LabRecord(name="lab", pid=known.pid, started=1, boot=known.boot))
    directory.log("lab").write_text("something")
    assert directory.all() == []
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_others_may_enter_is_refused(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = registry.open_directory()
    assert directory.path == tmp_path / "netfw-lab"
    directory.path.mkdir(mode=0o777)
    directory.path.chmod(0o777)
    with pytest.raises(BackendBroken, match="not a directory of yours alone"):
        registry.open_directory()
    with pytest.raises(BackendBroken, match="not a directory of yours alone"), directory.locked():
        pass


def test_the_directory_is_there_while_something_is_in_it(tmp_path) -> None:
    directory = registry.LabRegistry(tmp_path / "labs")
    assert directory.all() == []
    with directory.locked():
        directory.write(registry.identify("lab", os.getpid()))
    assert directory.path.is_dir()
    with directory.locked():
        directory.remove("lab")
    assert not directory.path.exists()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"name": 3}', b"\xff", b"[" * 100_000])
def test_what_is_no_record_is_no_lab_and_is_removed(tmp_path: Path, text: bytes) -> None:
    directory = registry.LabRegistry(tmp_path)
    (tmp_path / "lab.json").write_bytes(text)
    (tmp_path / "Foo Bar.json").write_bytes(text)
    assert directory.all() == []
    assert [file.name for file in tmp_path.iterdir()] == ["Foo Bar.json"]
