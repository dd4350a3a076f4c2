"""Trace one port from the API to its flows on br-int; write docs/port-path.json.

Run it as root: `.venv/bin/python tools/port_path.py`. It starts a server and an agent in a sandbox,
plugs a device, creates its port by the API and records the calls between modules of netfw until the
port is ACTIVE. `tools/generate_docs.py` draws docs/port-path.svg from the result.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netfw.testing.lab.openvswitch import PrivateOvs

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "docs/port-path.json"
TRACER = """
import os, sys, threading, time
directory = os.environ.get("NETFW_TRACE_DIR")
if directory:
    root = os.environ["NETFW_TRACE_ROOT"]
    packages = (root + "/netfw/", root + "/netfw_drivers/")
    armed, edges = False, {}

    def profile(frame, event, argument):
        if not armed or event != "call" or not frame.f_code.co_filename.startswith(packages):
            return
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(packages):
            caller = caller.f_back
        source = caller.f_code.co_filename if caller else ""
        target = frame.f_code.co_filename
        if source != target and (source, target) not in edges:
            edges[source, target] = (time.time(), frame.f_code.co_qualname)

    def control():
        global armed
        while True:
            before, armed = armed, os.path.exists(directory + "/armed")
            if before and not armed:
                with open(f"{directory}/{os.getpid()}.edges", "w") as file:
                    for (source, target), (when, name) in edges.items():
                        file.write(f"{when}\\t{source}\\t{target}\\t{name}\\n")
            time.sleep(0.02)

    sys.setprofile(profile)
    threading.setprofile(profile)
    threading.Thread(target=control, daemon=True).start()
"""


def trace(directory: Path) -> list[dict[str, object]]:
    """Run server and agent with the tracer; return the calls between modules in order."""
    from netfw.cli.demo.server import make_cloud
    from netfw.testing.lab.wait import wait_until

    site = directory / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(TRACER)
    os.environ |= {
        "NETFW_TRACE_DIR": str(directory),
        "NETFW_TRACE_ROOT": str(ROOT),
        "PYTHONPATH": str(site),
    }
    with make_cloud() as cloud:
        cloud.server.start()
        host = cloud.hosts[0]
        host.start()
        network = cloud.network.create_network(name="traced")
        cloud.network.create_subnet(network_id=network.id, cidr="10.9.0.0/24", ip_version=4)
        neighbour = cloud.network.create_port(network_id=network.id, binding_host_id="host1")
        _plug(host.host.ovs, neighbour.id, neighbour.mac_address, "tap-first")
        wait_until(lambda: cloud.network.get_port(neighbour.id).status == "ACTIVE")
        port_id = "99999999-9999-9999-9999-999999999999"
        _plug(host.host.ovs, port_id, "fa:16:3e:99:99:99", "tap-traced")
        time.sleep(1)
        (directory / "armed").touch()
        time.sleep(0.2)
        started = time.time()
        port = cloud.network.create_port(
            network_id=network.id, binding_host_id="host1", mac_address="fa:16:3e:99:99:99"
        )
        ids = f'external_ids:iface-id="{port.id}"'
        host.host.ovs.vsctl("set", "Interface", "tap-traced", ids)
        wait_until(lambda: cloud.network.get_port(port.id).status == "ACTIVE")
        (directory / "armed").unlink()
        time.sleep(0.5)
    return sorted(_edges(directory, started), key=lambda edge: float(str(edge["time"])))


def _plug(ovs: PrivateOvs, port: str, mac: str, device: str) -> None:
    ids = {"iface-id": port, "attached-mac": mac, "iface-status": "active"}
    words = [f'external_ids:{key}="{value}"' for key, value in ids.items()]
    add = ["add-port", "br-int", device, "--", "set", "Interface", device, "type=internal"]
    ovs.vsctl(*add, *words)


def _edges(directory: Path, started: float) -> Iterator[dict[str, object]]:
    for file in directory.glob("*.edges"):
        for line in file.read_text().splitlines():
            when, source, target, name = line.split("\t")
            if float(when) >= started:
                yield {
                    "time": round(float(when) - started, 4),
                    "process": file.stem,
                    "source": source.removeprefix(f"{ROOT}/"),
                    "target": target.removeprefix(f"{ROOT}/"),
                    "function": name,
                }


def main() -> int:
    """Trace a port; write the path and print its length."""
    from netfw.testing.lab import sandbox

    if not sandbox.inside():
        sandbox.enter([sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as directory:
        edges = trace(Path(directory))
    processes = list(dict.fromkeys(str(edge["process"]) for edge in edges))
    files = dict.fromkeys((str(edge["process"]), str(edge["target"])) for edge in edges)
    path = [
        {"process": ("server", "agent")[processes.index(process)], "module": module}
        for process, module in files
    ]
    RESULT.write_text(json.dumps({"hops": len(edges), "path": path}, indent=1) + "\n")
    print(f"{len(edges)} calls between {len({module for _, module in files})} modules")
    return 0


if __name__ == "__main__":
    sys.exit(main())
