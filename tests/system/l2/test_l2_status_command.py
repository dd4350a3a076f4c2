"""``netfw status`` on a host whose agent runs, waits, hangs and is killed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from netfw.cli.commands.status import NOT_READY
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.wait import TIMEOUT, wait_until
from tests.system.l2.agent_host import BIN, MESH4, PHYSNET, AgentHost
from tests.system.l2.environment import Site

NETFW = str(BIN / "netfw")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(hosts=1, bridges=["br-int"], provider=[PHYSNET]) as lab:
        site = Site(lab, tmp_path_factory.mktemp("status"), MESH4, agents=1)
        site.start()
        yield site


def agent_of(host: AgentHost, *words: str) -> tuple[int, dict[str, Any]]:
    """Return status and the agent that the command shows."""
    command = [NETFW, "status", "--json", "--config-file", str(host.conf), *words]
    done = host.host.attempt(command)
    return done.status, json.loads(done.output)["agents"][0]


@pytest.mark.spec("DRV-42")
def test_agent_is_ready_waits_hangs_and_is_dead(site: Site) -> None:
    host = site["host1"]
    assert (agent_of(host)[0], agent_of(host)[1]["state"]) == (0, "ready")
    ghost = "tap-ghost"
    port = site.port(site.network("vxlan"), "host1")
    site.topology.write()
    ids = [f"external_ids:iface-id={port.id}", f'external_ids:attached-mac="{port.mac}"']
    host.vsctl("add-port", "br-int", ghost, "--", "set", "Interface", ghost, *ids)

    def is_degraded() -> bool:
        status, agent = agent_of(host)
        return status == NOT_READY and any(ghost in reason for reason in agent["reasons"])

    wait_until(is_degraded, lambda: agent_of(host))
    host.vsctl("del-port", "br-int", ghost)
    host.await_ready()
    host.signal(signal.SIGSTOP)
    try:
        wait_until(lambda: agent_of(host, "--stale", "2")[1]["state"] == "stale")
    finally:
        host.signal(signal.SIGCONT)
    host.await_ready()
    wait_until(lambda: agent_of(host, "--stale", "75")[1]["state"] == "ready")
    host.kill()
    status, agent = agent_of(host)
    assert (status, agent["state"]) == (NOT_READY, "dead")
    host.start()
    host.await_ready()


def test_watch_follows_the_agent(site: Site) -> None:
    host = site["host1"]
    command = [NETFW, "status", "--json", "--watch", "0.1", "--config-file", str(host.conf)]
    watching = host.host.spawn(command, stdout=subprocess.PIPE)
    assert watching.stdout is not None
    try:
        states = (json.loads(line)["agents"][0]["state"] for line in watching.stdout)
        assert next(states) == "ready"
        host.kill()
        assert next(state for state in states if state != "ready") == "dead"
        watching.send_signal(signal.SIGINT)
        assert watching.wait(TIMEOUT) == 130
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close()
    host.start()
    host.await_ready()


@pytest.mark.spec("DRV-43", "DRV-48")
def test_service_manager_and_metrics_follow_the_life_of_an_agent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = site["host1"]
    host.stop()
    directory = host.conf.parent
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(directory / "notify"))
        manager.settimeout(TIMEOUT)
        received: list[str] = []

        def wait_for(line: str) -> None:
            while line not in received:
                received.extend(manager.recv(4096).decode().splitlines())

        metrics = directory / "agent.prom"
        host.configure(agent=f"metrics_file = {metrics}\nreport_interval = 600")
        monkeypatch.setenv("NOTIFY_SOCKET", str(directory / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "4000000")
        host.start()
        wait_for("READY=1")
        wait_for("STATUS=ready")
        wait_until(lambda: "netfw_agent_ready{" in metrics.read_text())
        received.clear()
        host.signal(signal.SIGHUP)
        wait_for("RELOADING=1")
        wait_for("READY=1")
        for _ in range(2):  # although the next heartbeat is far off
            received.clear()
            wait_for("WATCHDOG=1")
        host.stop()
        wait_for("STOPPING=1")
        assert not metrics.exists()
    monkeypatch.delenv("NOTIFY_SOCKET")
    monkeypatch.delenv("WATCHDOG_USEC")
    host.configure()
    host.start()
    host.await_ready()
