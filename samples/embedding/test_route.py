import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance, Plug
from netfw.testing.lab.wait import wait_until

PROGRAM = Path(__file__).with_name("route.py")
DIRECTORY = "/run/mine"  # private to the host of the lab
GATEWAY, FLOATING_IP, WORLD = "10.0.1.1", "203.0.113.100", "203.0.113.1"


def run(command: str, host: Host) -> str:
    return host.run([sys.executable, str(PROGRAM), command, host.ovs.remote, DIRECTORY])


def plug(host: Host, name: str, number: int, mac: str, address: str, *gateways: str) -> Instance:
    ids = {"iface-id": f"00000000-0000-0000-0000-{number:012x}", "attached-mac": mac}
    return host.instance(
        name,
        Plug(
            bridge="br-int",
            device=f"tap-{name}",
            mac=mac,
            addresses=[address],
            gateways=gateways,
            external_ids=ids,
        ),
    )


def await_answer(instance: Instance, address: str) -> None:
    wait_until(lambda: instance.ping(address, count=1, timeout=1).lost == 0, address)


@pytest.mark.spec("DRV-20")
def test_the_router_works_after_the_program_has_ended(make_lab: Any) -> None:
    (host,) = make_lab(hosts=1, bridges=["br-int"]).hosts.values()
    web = plug(host, "web", 101, "fa:16:3e:00:00:11", "10.0.1.11/24", GATEWAY)
    world = plug(host, "world", 201, "fa:16:3e:00:00:12", f"{WORLD}/24")
    for _ in range(2):  # idempotent
        output = run("run", host)
        assert "router 00000000-0000-0000-0000-000000000003" in output
        assert "in qrouter-00000000-0000-0000-0000-000000000003" in output
    await_answer(web, WORLD)
    await_answer(world, FLOATING_IP)
    assert "Nothing present: True" in run("stop", host)
    ports = host.ovs.vsctl("list-ports", "br-int").split()
    assert sorted(ports) == ["tap-web", "tap-world"]
    assert "qrouter" not in host.run(["ip", "netns"])
    assert host.run(["find", f"{DIRECTORY}/routers", "-name", "*-*"]) == ""


def test_the_program_prints_its_usage() -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "python route.py run" in done.stderr
