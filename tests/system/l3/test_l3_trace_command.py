"""``netfw trace`` over a router whose namespace is on one of two hosts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netfw.cli.commands.trace import NOT_ARRIVED
from netfw.testing.lab import sandbox
from netfw.testing.lab.wait import wait_until
from tests.system.l3.environment import FileSite, file_site, is_reached, suspended

NETFW = str(Path(sys.executable).with_name("netfw"))
pytestmark = pytest.mark.spec("DRV-41")


@pytest.fixture(scope="module")
def site() -> Iterator[FileSite]:
    sandbox.require()
    with file_site() as made:
        yield made


def trace(site: FileSite, source: str, target: str) -> tuple[int, Any, str]:
    directory = site.path.parent
    script = directory / "on-host"
    pids = [
        f"{name}) pid={(host.host.ovs.directory / 'ovs-vswitchd.pid').read_text().strip()};;"
        for name, host in site.hosts.items()
    ]
    lines = ["#!/bin/sh", "case $1 in", *pids, "esac", "shift", 'exec nsenter -t $pid -m -n "$@"']
    script.write_text("\n".join(lines) + "\n")
    script.chmod(0o755)
    conf = str(next(iter(site.hosts.values())).wiring.conf).replace("/host1/", "/{host}/")
    command = [NETFW, "trace", source, target, "--config-file", conf, "--netfw", NETFW]
    command += ["--via", f"{script} {{host}}", "--host", "host1", "--host", "host2"]
    done = site.hosts["host1"].host.attempt([*command, "--json"])
    assert done.status in (0, NOT_ARRIVED), done.error
    found = json.loads(done.output)
    return done.status, found, "\n".join(found["lines"])


def test_packet_is_followed_through_the_namespace_of_a_router(site: FileSite) -> None:
    one = site.boot("web1", "10.0.1.1")
    site.boot("db1", "10.0.2.1")
    address = "10.0.2.11"
    wait_until(lambda: is_reached(one, address))
    status, found, text = trace(site, "web1", "db1")
    assert status == 0, text
    assert found["arrives"]
    assert "namespace qrouter-" in text
    namespace = found["end"].partition("namespace ")[2].partition(",")[0]
    assert "forwards it by qr-" in found["end"]
    translation = "; a rule of address translation names it: -A router-float-snat -s 10.0.1.11/32 "
    assert translation in found["end"]
    host = site.hosts["host2"].host
    with suspended(site.hosts["host2"].serving):
        host.run(["ip", "-n", namespace, "route", "add", "unreachable", f"{address}/32"])
        status, found, text = trace(site, "web1", "db1")
        assert status == NOT_ARRIVED
        assert (found["arrives"], found["differs"]) == (False, True)
        assert "does not forward it" in text
        host.run(["ip", "-n", namespace, "route", "del", "unreachable", f"{address}/32"])
    assert trace(site, "db1", "web1")[0] == 0
