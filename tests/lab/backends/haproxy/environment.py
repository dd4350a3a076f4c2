"""A namespace with a guest, a metadata agent, and drivers that lead from one to the other."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from netfw.drivers.metadata import MetadataDriver, MetadataProxy
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey
from netfw.model.values.ids import NetworkId
from netfw.testing.conformance.metadata.lab_environment import ClientNetns, processes
from netfw.testing.conformance.metadata.recording_agent import RecordingAgent
from netfw.testing.conformance.metadata.requests import HONEST
from netfw.testing.conformance.metadata.suite import LINK_LOCAL, METADATA

DEVICE = "tap-meta"
ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"


class HaproxyEnvironment:
    """Closing it ends all proxies."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.key = NetworkKey(NetworkId(uuid4()))
        self.proxy = MetadataProxy(netns="meta", addresses=(METADATA,), device=DEVICE)
        self.room = ClientNetns("meta", DEVICE)
        self.agent: RecordingAgent | None = None
        self._drivers: list[tuple[MetadataDriver, dict]] = []
        self.agent_comes()

    @property
    def socket_path(self) -> Path:
        return self.directory / "agent"

    def agent_comes(self) -> None:
        self.agent = RecordingAgent(self.socket_path)

    def agent_goes(self) -> None:
        if self.agent is not None:
            self.agent.close()
        self.agent = None

    def driver(self, **options: object) -> MetadataDriver:
        values = {
            "metadata_proxy_socket": str(self.socket_path),
            "metadata_proxy_confs": str(self.directory / "confs"),
            "metadata_proxy_user": None if ONE_USER else "haproxy",
            "metadata_proxy_syslog": "",
        } | options
        made = create(MetadataDriver, "haproxy", values, LocalHostResources())
        self._drivers.append((made, values))
        return made

    def pids(self) -> set[int]:
        return set(processes(f"haproxy.*{self.directory}"))

    def ask(self, request: bytes = HONEST, address=METADATA) -> bytes:
        return self.room.ask(address, self.proxy.port, request)

    def ask_link_local(self) -> bytes:
        return self.ask(address=LINK_LOCAL)

    def close(self) -> None:
        for driver, _ in self._drivers:
            driver.close()
        for _, values in self._drivers:
            last = create(MetadataDriver, "haproxy", values, LocalHostResources())
            last.gc(())
            last.close()
        self.agent_goes()
        self.room.remove()


def status(answer: bytes) -> bytes:
    """Return the status code of an answer, like ``200``; empty: no answer."""
    return answer.partition(b"\r\n")[0].split(b" ")[1] if answer else b""


def memory(pid: int) -> dict[str, int]:
    """Return the memory of a process, in kB, by kind."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = [line.split() for line in file][1:]
    return {words[0].rstrip(":"): int(words[1]) for words in lines}
