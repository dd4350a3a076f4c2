"""A router that the host has no room for: the others do not notice, and it recovers by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import pytest

from netfw.testing.lab.temp_directory import temporary_directory
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.spare_router import await_active, spare_router, status

pytestmark = [
    pytest.mark.exclusive,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]


@contextmanager
def full_disk(edge: EdgeSite) -> Iterator[str]:
    """Fill the small file system of the directory ``router_confs``; yield the expected reason."""
    filler = edge.router_confs / "filler"
    host = edge.router_host.host
    host.run(["sh", "-c", f"cat /dev/zero > {filler} 2> /dev/null || true"])
    try:
        yield "No space left on device"
    finally:
        host.run(["rm", str(filler)])


@contextmanager
def read_only_directory(edge: EdgeSite) -> Iterator[str]:
    """Make the directory ``router_confs`` read-only."""
    host, path = edge.router_host.host, str(edge.router_confs)
    host.run(["mount", "--bind", path, path])
    try:
        host.run(["mount", "-o", "remount,bind,ro", path])
        yield "Read-only file system"
    finally:
        host.run(["umount", "--lazy", path])


@contextmanager
def read_only_run(edge: EdgeSite) -> Iterator[str]:
    """Make ``/run/netns`` read-only."""
    host = edge.router_host.host
    host.run(["mount", "-o", "remount,bind,ro", "/run/netns"])
    try:
        yield "Read-only file system"
    finally:
        host.run(["mount", "-o", "remount,bind,rw", "/run/netns"])


@contextmanager
def process_limit(edge: EdgeSite) -> Iterator[str]:
    """Allow the agent no process or thread more than it has."""
    with temporary_directory("netfw-pids.") as root:
        words = ["mount", "-t", "cgroup", "-o", "pids", "none", str(root)]
        mounted = subprocess.run(words, capture_output=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no cgroup controller for pids: {mounted.stderr.decode()}")
        group = root / f"netfw-{root.name}"
        try:
            group.mkdir()
            (group / "cgroup.procs").write_text(str(edge.l3.pid))
            (group / "pids.max").write_text((group / "pids.current").read_text())
            yield "start new thread"
        finally:
            for pid in (group / "cgroup.procs").read_text().split():
                (root / "cgroup.procs").write_text(pid)
            group.rmdir()
            subprocess.run(["umount", str(root)], check=True)


LIMITS = full_disk, read_only_directory, read_only_run, process_limit


@pytest.mark.spec("L3-10")
@pytest.mark.parametrize(
    "limit",
    [full_disk, read_only_directory, read_only_run, process_limit],
    ids=lambda f: f.__name__,
)
def test_a_limit_degrades_a_new_router_and_nothing_else(
    edge: EdgeSite, limit: Callable[[EdgeSite], AbstractContextManager[str]]
) -> None:
    with edge.undisturbed(), ExitStack() as stack:
        with limit(edge) as reason:
            spare = stack.enter_context(spare_router(edge))
            edge.l3.wait_for(lambda found: reason in str(found["degraded"]))
            assert status(edge, spare.router) != "ACTIVE"
        await_active(edge, spare.router, spare.floating_ip)
