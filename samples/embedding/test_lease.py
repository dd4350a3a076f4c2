import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from netfw.testing.lab.dhcp_client import Udhcpc
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Plug

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("lease.py")
DIRECTORY = "/run/mine"  # private to the host of the lab
MAC = "fa:16:3e:00:00:11"
QUOTED = re.compile(r"<!-- (samples/embedding/\S+) -->\n```python\n(.*?)```", re.DOTALL)
PORT = "00000000-0000-0000-0000-000000000065"


def run(command: str, host: Host) -> str:
    return host.run([sys.executable, str(PROGRAM), command, host.ovs.remote, DIRECTORY])


@pytest.mark.spec("DRV-20")
def test_an_instance_gets_its_lease_after_the_program_has_ended(make_lab: Any) -> None:
    (host,) = make_lab(hosts=1, bridges=["br-int"]).hosts.values()
    ids = {"iface-id": PORT, "attached-mac": MAC}
    plug = Plug(bridge="br-int", device="tap-web", mac=MAC, external_ids=ids)
    instance = host.instance("web", plug)
    for _ in range(2):  # idempotent
        output = run("serve", host)
        assert f"port {PORT}" in output
        assert "tap-web" in output
    client = Udhcpc(instance)
    lease = client.lease()
    client.close()
    assert lease is not None
    assert (str(lease.ip), lease.mtu, lease.hostname) == ("10.0.0.11", 1450, "web")
    assert [str(address) for address in (*lease.gateways, *lease.dns)] == ["10.0.0.1", "192.0.2.53"]
    assert "Nothing served: True" in run("stop", host)
    assert host.ovs.vsctl("list-ports", "br-int").split() == ["tap-web"]
    assert host.run(["find", f"{DIRECTORY}/dhcp", "-name", "*-*"]) == ""
    assert "qdhcp" not in host.run(["ip", "netns"])


def test_the_program_prints_its_usage() -> None:
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "python lease.py serve" in done.stderr


def test_the_page_quotes_the_programs_verbatim() -> None:
    blocks = QUOTED.findall((ROOT / "docs/embedding.md").read_text())
    assert {Path(name).name for name, _ in blocks} == {"lease.py", "route.py"}
    for name, block in blocks:
        assert block in (ROOT / name).read_text()
