"""Namespaces on the real kernel, seen by ourselves and by iproute2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from netfw.errors import Conflict, NotFound
from netfw.linux import netns, syscalls
from netfw.linux.ip.netlink_client import NetlinkClient
from netfw.linux.ip.operations import AddVeth, MoveLink


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_namespace_of_ours_is_one_of_ip_netns():
    netns.create("qrouter-1")
    assert [entry["name"] for entry in json.loads(ip("-j", "netns", "list"))] == ["qrouter-1"]
    assert "UP" in json.loads(ip("-j", "-n", "qrouter-1", "link", "show", "lo"))[0]["flags"]
    ip("netns", "delete", "qrouter-1")
    assert not netns.exists("qrouter-1")


def test_a_namespace_of_ip_netns_is_one_of_ours():
    ip("netns", "add", "blue")
    assert netns.names() == {"blue"}
    assert netns.ensure("blue") is False
    assert netns.delete("blue") is True
    assert ip("netns", "list") == ""


def test_creating_an_existing_namespace_is_a_conflict_and_ensuring_it_is_not():
    netns.create("blue")
    before = netns.identity("blue")
    with pytest.raises(Conflict, match="blue"):
        netns.create("blue")
    assert netns.ensure("blue") is False
    assert netns.identity("blue") == before


def test_deleting_what_is_absent_succeeds():
    assert netns.delete("nowhere") is False


def test_a_file_without_a_namespace_is_made_whole_and_is_deletable():
    netns.create("blue")
    netns.delete("blue")
    (netns.DIRECTORY / "blue").touch()
    assert netns.names() == frozenset()
    with pytest.raises(NotFound, match="blue"):
        netns.run_in("blue", os.getpid)
    assert netns.ensure("blue") is True
    assert "UP" in json.loads(ip("-j", "-n", "blue", "link", "show", "lo"))[0]["flags"]
    netns.delete("blue")
    (netns.DIRECTORY / "blue").touch()
    assert netns.delete("blue") is True
    assert not (netns.DIRECTORY / "blue").exists()


def test_a_namespace_mounted_twice_is_deleted_whole():
    netns.create("blue")
    path = str(netns.DIRECTORY / "blue")
    syscalls.mount(path, path, syscalls.MS_BIND)
    netns.delete("blue")
    assert not (netns.DIRECTORY / "blue").exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../a", "a\nb", "a b", "x" * 256, "a\0b"])
def test_hostile_names_are_refused_before_anything_happens(name):
    for verb in (netns.create, netns.ensure, netns.delete, netns.exists, netns.worker):
        with pytest.raises(ValueError, match="not a namespace name"):
            verb(name)
    assert netns.names() == frozenset()


def test_a_function_runs_in_the_namespace_and_the_caller_stays_where_it_is():
    netns.create("blue")
    here = netns.identity()
    assert netns.run_in("blue", netns.identity) == netns.identity("blue") != here
    assert netns.identity() == here


def test_the_namespace_of_a_process_and_of_a_path():
    netns.create("blue")
    child = netns.run_in("blue", subprocess.Popen, ["sleep", "60"])
    try:
        assert netns.identity(netns.of_process(child.pid)) == netns.identity("blue")
        there = netns.run_in(Path("/run/netns/blue"), netns.identity)
        assert there == netns.run_in(netns.of_process(child.pid), netns.identity)
        assert netns.run_in(None, netns.identity) == netns.identity()
    finally:
        child.kill()
        child.wait()
    with pytest.raises(NotFound):
        netns.identity(netns.of_process(child.pid))


def test_what_a_function_raises_comes_out_with_its_traceback_and_leaks_nothing():
    netns.create("blue")

    def deep():
        raise KeyError("from below")

    threads, files = threading.active_count(), descriptors()
    for _ in range(20):
        with pytest.raises(KeyError, match="from below") as caught:
            netns.run_in("blue", deep)
        with pytest.raises(NotFound):
            netns.run_in("red", deep)
    assert "in deep" in "".join(traceback.format_exception(caught.value))
    assert (threading.active_count(), descriptors()) == (threads, files)


def test_a_failed_creation_leaves_nothing(monkeypatch):
    def refuse(_flags: int) -> None:
        raise OSError(28, "no space")

    netns.create("blue")
    threads, files = threading.active_count(), descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(syscalls, "unshare", refuse)
        with pytest.raises(Exception, match=r"ip netns add red.*no space"):
            netns.create("red")
    assert netns.names() == {"blue"}
    assert not (netns.DIRECTORY / "red").exists()
    assert (threading.active_count(), descriptors()) == (threads, files)


def test_two_threads_in_two_namespaces_never_mix():
    identities = {name: netns.ensure(name) and netns.identity(name) for name in ("blue", "red")}

    def visit(name: str) -> set[netns.NamespaceIdentity]:
        return {netns.run_in(name, netns.identity) for _ in range(200)}

    with ThreadPoolExecutor(2) as pool:
        seen = dict(zip(identities, pool.map(visit, identities), strict=True))
    assert seen == {name: {identity} for name, identity in identities.items()}


def test_many_threads_ensuring_and_deleting_one_namespace_make_and_delete_one():
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            assert list(pool.map(netns.ensure, ["blue"] * 16)).count(True) == 1
            assert list(pool.map(netns.delete, ["blue"] * 16)).count(True) == 1
            assert not (netns.DIRECTORY / "blue").exists()


def test_a_link_to_a_namespace_is_used_and_deleted_and_its_namespace_stays():
    netns.create("blue")
    (netns.DIRECTORY / "alias").symlink_to("/proc/self/ns/net")
    assert netns.identity("alias") == netns.identity()
    assert netns.delete("alias") is True
    assert netns.names() == {"blue"}


def move_to_a_host_of_its_own() -> None:
    """Move this thread to a network, mounts and a /run of its own, as the lab does."""
    syscalls.unshare(syscalls.CLONE_FS)
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWNET)
    syscalls.mount("", "/", syscalls.MS_REC | syscalls.MS_PRIVATE)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)


def test_names_are_those_of_the_host_that_the_calling_thread_was_moved_to():
    netns.create("qrouter-1")
    outside = netns.identity("qrouter-1")

    def on_host() -> tuple[netns.NamespaceIdentity, netns.NamespaceIdentity, frozenset[str]]:
        move_to_a_host_of_its_own()
        assert netns.names() == frozenset()
        netns.create("qrouter-1")
        netns.create("inner")
        there = netns.run_in("qrouter-1", netns.identity)
        return there, netns.run_in(None, netns.identity), netns.names()

    with ThreadPoolExecutor(1) as host:
        inside, own, names = host.submit(on_host).result()
        assert names == {"qrouter-1", "inner"}
        assert len({inside, own, outside, netns.identity()}) == 4
    assert netns.names() == {"qrouter-1"}
    assert netns.identity("qrouter-1") == outside


def test_networks_are_those_of_the_host_that_the_calling_thread_was_moved_to():
    for name in ("qrouter-1", "inner"):
        netns.create(name)

    def on_host() -> tuple[set[str], ...]:
        move_to_a_host_of_its_own()
        for name in ("qrouter-1", "inner"):
            netns.create(name)
        with (
            NetlinkClient("qrouter-1") as router,
            NetlinkClient("inner") as inner,
            NetlinkClient() as host,
        ):
            router.apply([AddVeth(name="r0", peer="i0", peer_namespace="inner")])
            router.apply([AddVeth(name="r1", peer="i1"), MoveLink(name="i1", namespace="inner")])
            return set(router.links()), set(inner.links()), set(host.links())

    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(on_host).result()
    assert seen == ({"lo", "r0", "r1"}, {"lo", "i0", "i1"}, {"lo"})
    for name in ("qrouter-1", "inner"):
        with NetlinkClient(name) as outside:
            assert set(outside.links()) == {"lo"}


def await_command(pid: int, command: str) -> None:
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}/comm").read_text().strip() != command:
        assert time.monotonic() < deadline, f"{pid} did not become {command}"
        time.sleep(0.005)


def test_mounts_are_shared_with_later_mount_namespaces_as_iproute2_does():
    def on_host() -> None:
        move_to_a_host_of_its_own()
        netns.create("blue")
        child = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "unchanged", "sleep", "60"]
        )
        try:
            seen = Path(f"/proc/{child.pid}/mountinfo")
            await_command(child.pid, "sleep")
            netns.create("red")
            assert "/run/netns/red" in seen.read_text()
            netns.delete("red")
            assert "/run/netns/red" not in seen.read_text()
        finally:
            child.kill()
            child.wait()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(on_host).result()


def test_deleting_a_link_leaves_the_namespace_that_it_leads_to():
    netns.create("real")
    (netns.DIRECTORY / "alias").symlink_to(netns.DIRECTORY / "real")
    before = netns.identity("real")
    assert netns.delete("alias")
    assert netns.names() == {"real"}
    assert netns.identity("real") == before


HAMMER = """
import random, sys, time
from netfw.linux import netns
chance, end = random.Random(sys.argv[1]), time.monotonic() + 1.5
while time.monotonic() < end:
    chance.choice([netns.ensure, netns.delete])("race")
"""


def test_processes_that_make_and_delete_one_name_do_not_disturb_each_other():
    argv = [sys.executable, "-c", HAMMER]
    hammers = [
        subprocess.Popen([*argv, str(n)], stderr=subprocess.PIPE, text=True) for n in range(3)
    ]
    output = [hammer.communicate(timeout=60)[1] for hammer in hammers]
    assert output == ["", "", ""]


def test_deleting_makes_no_directory(monkeypatch, tmp_path):
    monkeypatch.setattr(netns, "DIRECTORY", tmp_path / "netns")
    assert not netns.delete("nothing")
    assert not (tmp_path / "netns").exists()


def test_names_that_netfw_does_not_allow_are_left_out():
    netns.create("blue")
    ip("netns", "add", "vpn+office")
    assert netns.names() == {"blue"}
    ip("netns", "delete", "vpn+office")
