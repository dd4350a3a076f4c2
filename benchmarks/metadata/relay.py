"""Metadata: requests of an instance through a real proxy and the agent, with its port known."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

from benchmarks.figure import Figure, megabytes, milliseconds
from benchmarks.load import Client, Load, run
from benchmarks.process_usage import process_cpu, resident
from netfw.drivers.metadata import MetadataDriver, MetadataProxy
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey
from netfw.linux.netns import run_in
from netfw.model.values.ids import NetworkId
from netfw.plan import Update
from netfw.testing.conformance.metadata.lab_environment import ClientNetns
from netfw.testing.lab.ini import ini

NETWORK = NetworkId(UUID(int=7001))
CLIENT = "10.9.8.5"
CLIENTS = 8
SECONDS = 4.0
TARGET = 2.0
"""Milliseconds; 500 requests a second."""
BODY = b"x" * 500
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)
TOPOLOGY = f"""
hosts: {{host1: {{}}}}
networks: [{{id: {NETWORK}, name: blue, network_type: local}}]
subnets: [{{name: blue4, network: blue, cidr: 10.9.8.0/24}}]
ports: [{{name: guest, network: blue, host: host1, device_id: guest-1, fixed_ips: [{CLIENT}]}}]
"""


def figures() -> Iterator[Figure]:
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/run"))
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        port = stack.enter_context(_service())
        agent, address = stack.enter_context(_agent(folder, port))
        room = stack.enter_context(_proxy(folder, address))
        raw = 1 / _load(f"http://127.0.0.1:{port}").rate
        identity = {"X-Forwarded-For": CLIENT, "X-Neutron-Network-ID": str(NETWORK)}
        alone = _load(f"unix:{address}", identity)
        yield milliseconds(
            "metadata: a request through the agent alone", 1 / alone.rate, TARGET, raw
        )
        used = process_cpu(agent)
        whole = run_in(f"{room.name}-guest", _load, "http://169.254.169.254:80")
        used = (process_cpu(agent) - used) / len(whole.times)
        print(f"    the agent: {used * 1000:.2f} ms of CPU each")
        yield milliseconds(
            "metadata: a request through proxy and agent", 1 / whole.rate, TARGET, raw
        )
        yield megabytes("metadata: memory of the agent", resident(agent), 100.0)


def _load(url: str, headers: dict[str, str] | None = None) -> Load:
    lines = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    request = f"GET /latest/meta-data/ HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode()

    def make(_: Client, number: int) -> bytes:
        return request

    found = run(url, make, clients=CLIENTS, seconds=SECONDS)
    print(f"    {CLIENTS} clients: {found}")
    if set(found.statuses) != {200}:
        raise RuntimeError(f"not all were answered: {found}")
    return found


class _Service(asyncio.Protocol):
    """The metadata service: one answer for everything, at little cost."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport, self._held = transport, b""

    def data_received(self, data: bytes) -> None:
        self._held += data
        while b"\r\n\r\n" in self._held:
            _, _, self._held = self._held.partition(b"\r\n\r\n")
            self._transport.write(ANSWER)


def _serve(listening: socket.socket) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Service, sock=listening)
        await server.serve_forever()

    asyncio.run(serve())


@contextmanager
def _service() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(listening,))
        process.start()
        yield int(listening.getsockname()[1])
        process.terminate()
        process.join()


@contextmanager
def _agent(folder: Path, port: int) -> Iterator[tuple[int, Path]]:
    """Run the agent; yield its PID and its socket."""
    address, topology, conf = (
        folder / "metadata.sock",
        folder / "topology.yaml",
        folder / "agent.conf",
    )
    topology.write_text(TOPOLOGY)
    conf.write_text(
        ini(
            {
                "DEFAULT": {"host": "host1", "state_path": folder},
                "file": {"path": topology, "debounce": 0},
                "metadata": {
                    "nova_metadata_port": port,
                    "metadata_proxy_shared_secret": "secret",
                    "metadata_proxy_socket": address,
                    "metadata_proxy_socket_mode": "all",
                },
            }
        )
    )
    argv = [sys.executable, "-m", "netfw.cli.agents.metadata", "--config-file", str(conf)]
    with (folder / "agent.log").open("wb") as log:
        process = subprocess.Popen(argv, stderr=log)
    ready = folder / "metadata" / "netfw-metadata-agent.json"
    while not ready.exists() or '"ready": true' not in ready.read_text():
        if process.poll() is not None:
            raise RuntimeError((folder / "agent.log").read_text())
        time.sleep(0.05)
    yield process.pid, address
    process.terminate()
    process.wait()


@contextmanager
def _proxy(folder: Path, address: Path) -> Iterator[ClientNetns]:
    room = ClientNetns("meta", "tap-meta")
    values = {
        "metadata_proxy_socket": str(address),
        "metadata_proxy_confs": str(folder / "confs"),
        "metadata_proxy_syslog": "",
    }
    driver = create(MetadataDriver, "haproxy", values, LocalHostResources())
    proxy = MetadataProxy(netns="meta", addresses=(ip_address("169.254.169.254"),))
    outcome = driver.converge(Update(put={NetworkKey(NETWORK): proxy}))
    if not outcome.ok:
        raise RuntimeError(str(outcome))
    yield room
    driver.gc(())
    driver.close()
    room.remove()
