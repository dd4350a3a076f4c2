"""Points at which an L3 agent is killed, and work by the API that it always has."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netfw.testing.lab.wait import wait_until
from tests.system.l3.distributed.site import DistributedSite
from tests.system.l3.edge_site import EdgeSite
from tests.system.l3.routed_networks import Segment

START_SECONDS = 180.0
"""Enough for an agent to start on a machine that does much else."""
SPARE_PORTS, MAX_FLOATING_IPS, MAX_ROUTERS = 4, 4, 2
_RESTORE = """#!/bin/sh
text=$(cat)
if mode=$(cat {armed} 2>/dev/null) && mv {armed} {struck} 2>/dev/null; then
    case $mode in
        none) text= ;;
        first-table) text=$(printf '%s\\n' "$text" | sed '/^COMMIT$/q') ;;
    esac
    [ -z "$text" ] || printf '%s\\n' "$text" | {real} "$@"
    kill -9 $PPID
    exit 1
fi
printf '%s\\n' "$text" | exec {real} "$@"
"""
"""A restore in which the agent dies: before it, between two tables, or before it returns."""


class Churn:
    """Floating IPs, router interfaces and routers that come, move and go by the API.

    Ports of the floating IPs are on *hosts* in turn, or on none.
    """

    def __init__(
        self, site: EdgeSite | DistributedSite, chance: random.Random, hosts: Sequence[str] = ()
    ) -> None:
        self._site, self._chance = site, chance
        self._network = site.network
        self._segments = [site.segment(f"spare{n}", 0x10 + n) for n in range(2)]
        self._connected: list[Segment] = []
        self._ports = [
            self._network.create_port(
                network_id=site.blue.network.id, name=f"spare{n}",
                **({"binding_host_id": hosts[n % len(hosts)]} if hosts else {}),
            )
            for n in range(SPARE_PORTS)
        ]  # fmt: skip
        self._floating_ips: list[Any] = []
        self._routers: list[Any] = []
        self._lock = threading.Lock()
        self.calls = 0

    def step(self) -> None:
        """Change one thing."""
        with self._lock:
            self._chance.choice(
                [self._add_floating_ip, self._move_floating_ip, self._remove_floating_ip,
                 self._toggle_interface]
            )()  # fmt: skip
            self.calls += 1

    def add_router(self) -> Any:
        """Create a router with a gateway, and remove another if there are many."""
        with self._lock:
            while len(self._routers) >= MAX_ROUTERS:
                self._remove_router()
            gateway = {"network_id": self._site.outside.network.id}
            self._routers.append(self._network.create_router(external_gateway_info=gateway))
            return self._routers[-1]

    def remove_all(self) -> None:
        """Remove everything that was made, by the API."""
        with self._lock:
            while self._floating_ips:
                self._remove_floating_ip()
            while self._routers:
                self._remove_router()
            for segment in self._connected:
                self._site.disconnect(self._site.router, segment)
            self._connected.clear()
            for port in self._ports:
                self._network.delete_port(port)
            for segment in self._segments:
                self._network.delete_network(segment.network)

    def _add_floating_ip(self) -> None:
        taken = {each.port_id for each in self._floating_ips}
        free = [port for port in self._ports if port.id not in taken]
        if free and len(self._floating_ips) < MAX_FLOATING_IPS:
            outside = self._site.outside.network.id
            made = self._network.create_ip(floating_network_id=outside, port_id=free[0].id)
            self._floating_ips.append(made)

    def _move_floating_ip(self) -> None:
        taken = {each.port_id for each in self._floating_ips}
        free = [port for port in self._ports if port.id not in taken]
        if free and self._floating_ips:
            moved = self._floating_ips.pop(0)
            self._floating_ips.append(self._network.update_ip(moved, port_id=free[-1].id))

    def _remove_floating_ip(self) -> None:
        if self._floating_ips:
            index = self._chance.randrange(len(self._floating_ips))
            self._network.delete_ip(self._floating_ips.pop(index))

    def _toggle_interface(self) -> None:
        segment = self._chance.choice(self._segments)
        if segment in self._connected:
            self._connected.remove(segment)
            self._site.disconnect(self._site.router, segment)
        else:
            self._connected.append(segment)
            self._site.connect(self._site.router, segment)

    def _remove_router(self) -> None:
        if self._routers:
            self._network.delete_router(self._routers.pop(0))


@contextmanager
def churning(churn: Churn) -> Iterator[None]:
    """Change things by the API all the time while the block runs."""
    stopped, errors = threading.Event(), list[Exception]()

    def run() -> None:
        while not stopped.wait(0.2):
            try:
                churn.step()
            except Exception as error:  # noqa: BLE001 - raised by the block's end
                errors.append(error)
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
    if errors:
        raise errors[0]


class AgentKiller:
    """Kills the L3 agent of a site and starts it again, at points that *chance* chooses."""

    def __init__(self, site: EdgeSite, churn: Churn, chance: random.Random, tools: Path) -> None:
        self._site, self._churn, self._chance = site, churn, chance
        self._armed, self._struck = tools / "armed", tools / "struck"
        self.start_seconds = 1.5
        self.points: list[str] = []
        for name in ("iptables-restore", "ip6tables-restore"):
            real = shutil.which(name)
            script = _RESTORE.format(armed=self._armed, struck=self._struck, real=real)
            (tools / name).write_text(script)
            (tools / name).chmod(0o755)

    def strike(self) -> None:
        """Kill the running agent at the next point, and start another."""
        kinds: list[Callable[[], str]] = [self._in_phase, self._in_phase, self._in_restore]
        point = self._chance.choice([*kinds, self._in_plug])()
        self._site.l3.kill()
        self.points.append(point)
        self._site.l3.spawn()

    def _in_phase(self) -> str:
        """Wait a random time, which may end before or after the first full sync of the agent."""
        seconds = self._chance.uniform(0, 1.5 * self.start_seconds)
        time.sleep(seconds)  # where the kill strikes is for chance to decide
        return f"{seconds:.2f}s"

    def _in_restore(self) -> str:
        mode = self._chance.choice(["none", "first-table", "all"])
        self._armed.write_text(mode)
        try:
            wait_until(self._struck.exists, "a restore", seconds=START_SECONDS, pause=0.001)
            os.waitid(os.P_PID, self._site.l3.pid, os.WEXITED | os.WNOWAIT)
        finally:
            self._armed.unlink(missing_ok=True)
            self._struck.unlink(missing_ok=True)
        return f"restore:{mode}"

    def _in_plug(self) -> str:
        """Wait until soon after a new router has its namespace, before it has all of its ports."""
        router = self._churn.add_router()
        name = f"netns/qrouter-{router.id}"
        path = self._site.router_host.host.directory / name
        wait_until(path.exists, name, seconds=START_SECONDS, pause=0.001)
        time.sleep(self._chance.uniform(0, 0.05))
        return "plug"
