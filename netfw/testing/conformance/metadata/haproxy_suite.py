"""The suite of metadata drivers for those that run haproxy, in real namespaces.

For drivers with the options of netfw's own, which write a configuration and a record for each
proxy, named by its network or router.
"""

from __future__ import annotations

import os
import pwd
import signal
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest
from attrs import evolve

from netfw.drivers.host_driver import HostDriver
from netfw.drivers.metadata import MetadataDriver, MetadataKey, MetadataProxy
from netfw.drivers.registry.loader import check_options
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.values.keys import NetworkKey
from netfw.model.values.address import IpAddress
from netfw.testing.conformance.metadata import lab_environment as lab
from netfw.testing.conformance.metadata.recording_agent import RecordingAgent
from netfw.testing.conformance.metadata.requests import HONEST, ReceivedRequest
from netfw.testing.conformance.metadata.suite import MetadataDriverConformance
from netfw.testing.lab import sandbox

ONE_USER = Path("/proc/self/uid_map").read_text().split()[2] == "1"
USER = None if ONE_USER else "haproxy"
"""User of the proxies: a sandbox of an ordinary user has no other one."""


def id_of(key: MetadataKey) -> str:
    """Return the id of a network or router."""
    return str(key.network if isinstance(key, NetworkKey) else key.router)


class HaproxyConformance(MetadataDriverConformance):
    """The whole suite; a subclass names the class of the drivers."""

    DRIVER: ClassVar[type[MetadataDriver]]
    """Class of the drivers."""
    rooms: lab.MetadataLab

    @pytest.fixture(scope="class")
    @classmethod
    def namespaces(cls) -> Iterator[lab.MetadataLab]:
        """Yield namespaces for all tests; each test leaves them as they were."""
        sandbox.require()
        found = lab.MetadataLab(cls.DEVICE)
        yield found
        found.close()

    @pytest.fixture
    def make_driver(
        self, namespaces: lab.MetadataLab, tmp_path: Path
    ) -> Iterator[Callable[[], MetadataDriver]]:
        place = Path(f"/run/{tmp_path.name}")  # short enough for a socket, and open to all
        place.mkdir()
        self.rooms, self.confs = namespaces, place / "confs"
        self.agent = RecordingAgent(place / "agent")
        options = {
            "metadata_proxy_socket": str(self.agent.path),
            "metadata_proxy_confs": str(self.confs),
            "metadata_proxy_user": USER,
            "metadata_proxy_syslog": "",
        }
        drivers: list[MetadataDriver] = []

        def make_beside() -> MetadataDriver:
            checked = check_options("haproxy", self.DRIVER, options)
            drivers.append(self.DRIVER.from_conf(checked, LocalHostResources()))
            return drivers[-1]

        def make() -> MetadataDriver:
            for driver in drivers:  # one at a time works on a host
                driver.close()
            return make_beside()

        self.make_beside = make_beside

        yield make
        for driver in drivers:
            driver.close()  # or it would start again what the last one ends
        last = make()
        last.gc(())
        last.close()
        namespaces.expel()
        self.agent.close()
        assert not lab.processes(str(self.confs)), "a driver that was told to remove everything"

    def test_two_driver_objects_work_on_one_host_at_once(
        self, make_driver: Callable[[], HostDriver[MetadataKey, MetadataProxy]]
    ) -> None:
        super().test_two_driver_objects_work_on_one_host_at_once(self.make_beside)

    def make_namespace(self, name: str) -> None:
        self.rooms.open(name)

    def listen_addresses(self, proxy: MetadataProxy) -> Collection[IpAddress]:
        return lab.listen_points(proxy)

    def source(self, proxy: MetadataProxy, address: IpAddress) -> IpAddress:
        return lab.CLIENT[address.version]

    def ask(self, proxy: MetadataProxy, address: IpAddress, request: bytes) -> bytes:
        return self.rooms.open(proxy.netns).ask(address, proxy.port, request)

    def received_requests(self) -> Collection[ReceivedRequest]:
        return self.agent.take()

    def actual(self, key: MetadataKey, value: MetadataProxy) -> MetadataProxy | None:
        found = lab.listening_proxy(self.rooms.open(value.netns), value)
        other = evolve(value, port=value.port % 65535 + 1)
        if found is None or not self.is_for(key, found):
            return other if self.traces(key, value) else None
        return found

    def is_for(self, key: MetadataKey, proxy: MetadataProxy) -> bool:
        """Return whether requests come from *proxy* with the id of *key*."""
        self.agent.take()
        answer = self.ask(proxy, lab.listen_points(proxy)[0], HONEST)
        ids = {value for each in self.agent.take() for name, value in each.headers
               if name.lower().startswith("x-neutron-")}  # fmt: skip
        return bool(answer) and ids == {id_of(key)}

    def pids(self, key: MetadataKey) -> Collection[int]:
        return lab.processes(f"haproxy.*{id_of(key)}")

    def process_identity(self, key: MetadataKey, proxy: MetadataProxy) -> Hashable:
        (pid,) = self.pids(key)
        return pid, os.stat(f"/proc/{pid}").st_ctime_ns

    def kill(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        for pid in self.pids(key):
            os.kill(pid, signal.SIGKILL)
            lab.wait_for_exit(pid)

    def vanish(self, key: MetadataKey, value: MetadataProxy) -> None:
        self.config(key).unlink()  # so that the driver cannot start it again
        self.kill(key, value)

    def config(self, key: MetadataKey) -> Path:
        (path,) = self.confs.rglob(f"{id_of(key)}.conf")
        return path

    def traces(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        files = [str(path) for path in self.confs.rglob(f"*{id_of(key)}*")]
        return [*files, *map(str, self.pids(key))]

    def excess(self, key: MetadataKey, proxy: MetadataProxy) -> Collection[str]:
        if USER is None:
            return []  # all that the agent may
        account = pwd.getpwnam(USER)
        wanted = {
            "Uid": {str(account.pw_uid)},
            "Gid": {str(account.pw_gid)},
            "Groups": set(),
            "CapEff": {"0" * 16},
            "CapPrm": {"0" * 16},
        }
        (pid,) = self.pids(key)
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found = {
            name: set(rest.split()) for name, _, rest in (line.partition(":") for line in lines)
        }
        return [f"{name}: {found[name]}" for name in wanted if found[name] != wanted[name]]

    def make_foreign(self, value: MetadataProxy) -> None:
        self.rooms.settle(value)

    def foreign_is_intact(self, value: MetadataProxy) -> bool:
        return self.rooms.is_settled(value)

    def outage(self) -> AbstractContextManager[None]:
        return lab.no_files_left()

    def drifts(self) -> Mapping[str, Callable[[MetadataKey, MetadataProxy], None]]:
        return {
            "it is gone": self.vanish,
            "its configuration was changed": self.meddle,
            "its configuration is gone": lambda key, _: self.config(key).unlink(),
            "its record is gone": self.forget,
            "its namespace was made anew": lambda _, proxy: self.rooms.open(proxy.netns).renew(),
        }

    def meddle(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        path = self.config(key)
        path.write_text(path.read_text().replace(id_of(key), "somebody-else"))

    def forget(self, key: MetadataKey, proxy: MetadataProxy) -> None:
        (record,) = self.confs.rglob(f"{id_of(key)}.json")
        record.unlink()
