"""Real DHCP clients in an instance: ``udhcpc`` and ``dhclient``, and ``rdisc6`` for IPv6.

::

    client = Udhcpc(instance)
    lease = client.lease()          # None: no server answered
    assert client.renew() == lease
    client.release()

A client configures the instance's device from its lease, so that it can renew; routes, names and
MTU are only reported.  Every wait is for an event, and is bounded.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from netfw.errors import BackendBroken
from netfw.testing.lab.dhcp_lease import (
    OPTION_NUMBER,
    Announcement,
    ClientLease,
    Lease6,
    announcement_of_rdisc6,
    lease6_of_dhclient,
    lease_of_dhclient,
    lease_of_udhcpc,
)
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.prerequisites import search_path
from netfw.testing.lab.temp_directory import temporary_directory
from netfw.testing.lab.wait import wait_until

TIMEOUT = 60.0
"""Seconds within which an expected lease must arrive."""
DEFAULT_OPTIONS = frozenset({1, 3, 6, 12, 15, 26, 28, 42, 66, 67, 121, 150, 249})
"""Options that every client requests."""
DEFAULT_OPTIONS6 = frozenset({59})
"""Options beside name servers and search list."""

_LINK_SCOPE, _TENTATIVE = "20", 0x40

_PACKAGES = {"udhcpc": "udhcpc", "dhclient": "isc-dhcp-client", "rdisc6": "ndisc6"}

L = TypeVar("L", bound=ClientLease | Lease6)
ScriptEvent = Mapping[str, str]

_SCRIPT = """#!/bin/sh
# Called by the client; reports to the test what the client received.
set -- "${reason:-$1}"
case $1 in
deconfig|RELEASE|EXPIRE|FAIL|STOP) ip -4 address flush dev "$interface" ;;
bound|renew) ip -4 address replace "$ip/$mask" dev "$interface" ;;
BOUND|RENEW|REBIND|REBOOT)
    ip -4 address replace "$new_ip_address/$new_subnet_mask" dev "$interface" ;;
BOUND6|RENEW6|REBIND6)
    [ -z "$new_ip6_address" ] || ip -6 address replace "$new_ip6_address/128" dev "$interface" ;;
RELEASE6|EXPIRE6|STOP6)
    [ -z "$old_ip6_address" ] || ip -6 address delete "$old_ip6_address/128" dev "$interface" ;;
esac
{ env -0 "event=$1"; printf '\\0'; } > "$EVENTS"
"""


class DhcpClient(ABC, Generic[L]):
    """One client of one instance; ``requested`` are options that it requests by number.

    :raises BackendBroken: its program is not installed.
    """

    PROGRAM: ClassVar[str]

    def __init__(
        self, instance: Instance, requested: Collection[int] = (), timeout: float = TIMEOUT
    ) -> None:
        _require(self.PROGRAM)
        self.instance = instance
        self.timeout = timeout
        self._requested = frozenset(requested)
        self._stack = contextlib.ExitStack()
        self._directory = self._stack.enter_context(temporary_directory("netfw-dhcp-client."))
        self._process: subprocess.Popen[bytes] | None = None
        self._script = self._directory / "script"
        self._script.write_text(_SCRIPT)
        self._script.chmod(0o755)
        self._fifo = self._directory / "events"
        os.mkfifo(self._fifo)
        self._events = os.open(self._fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._read = b""

    def lease(self, timeout: float | None = None) -> L | None:
        """Request a lease as a new client; ``None``: no lease within *timeout* seconds."""
        self.end()
        self._forget()
        return self._begin(timeout)

    @abstractmethod
    def renew(self, timeout: float | None = None) -> L | None:
        """Renew the lease; ``None``: refused, or no answer within *timeout* seconds."""

    @abstractmethod
    def release(self) -> None:
        """Release the lease."""

    def leave(self) -> None:
        """End without a release, as a destroyed instance does; it can request a lease again."""
        self.end()
        if self.instance.device is not None:
            self.instance.namespaces.ip(f"address flush dev {self.instance.device} scope global")

    def close(self) -> None:
        """Leave, and remove the client's files."""
        self.end()
        with contextlib.suppress(OSError):
            os.close(self._events)
        self._stack.close()

    def end(self) -> None:
        """Kill the process with the script that it may be in; what it configured stays."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            wait_until(lambda: not _runs_in_group(process.pid), f"the end of {self.PROGRAM}")
        self._drain()

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _lease_of(self, event: ScriptEvent) -> L | None:
        """Return the lease of an event; ``None``: it is not a lease."""

    def _forget(self) -> None:
        """Remove what a client keeps beyond its process."""

    def _begin(self, timeout: float | None) -> L | None:
        environment = {"PATH": search_path(), "EVENTS": str(self._fifo)}
        with (self._directory / "log").open("ab") as log:
            self._process = self.instance.spawn(
                self._command(), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        return self._await_lease(timeout)

    def _await_lease(self, timeout: float | None, *refusals: str) -> L | None:
        """Return the next reported lease; if none arrives in time, end the client."""
        until = time.monotonic() + (self.timeout if timeout is None else timeout)
        while (event := self._next_event(until)) is not None:
            if event["event"] in refusals:
                break
            lease = self._lease_of(event)
            if lease is not None:
                return lease
        self.end()
        return None

    def _next_event(self, until: float) -> ScriptEvent | None:
        while b"\0\0" not in self._read:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._events], [], [], left)[0]:
                return None
            self._read += os.read(self._events, 65536)
        event, self._read = self._read.split(b"\0\0", 1)
        pairs = (entry.decode(errors="replace").split("=", 1) for entry in event.split(b"\0"))
        return dict(pairs)

    def _drain(self) -> None:
        self._read = b""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._events, 65536):
                pass

    def log(self) -> str:
        """Return the client's output, for error messages."""
        return (self._directory / "log").read_text(errors="replace")


class Udhcpc(DhcpClient[ClientLease]):
    """``udhcpc`` of BusyBox; one more try each second.

    ``sent_options`` are options that it sends, by number, such as another client id (61).
    """

    PROGRAM = "udhcpc"

    def __init__(
        self,
        instance: Instance,
        requested: Collection[int] = (),
        timeout: float = TIMEOUT,
        *,
        sent_options: Mapping[int, bytes] | None = None,
    ) -> None:
        super().__init__(instance, requested, timeout)
        self._sent_options = dict(sent_options or {})

    def _command(self) -> list[str]:
        requested = (
            word
            for number in sorted(self._requested | DEFAULT_OPTIONS)
            for word in ("-O", str(number))
        )
        sent = (
            w for n, value in self._sent_options.items() for w in ("-x", f"{n:#04x}:{value.hex()}")
        )
        every_second = ["-t", "100", "-T", "1", "-A", "1"]
        return [self.PROGRAM, "-f", "-i", _device(self.instance), "-s", str(self._script),
                *every_second, *requested, *sent]  # fmt: skip

    def _lease_of(self, event: ScriptEvent) -> ClientLease | None:
        return lease_of_udhcpc(event) if event["event"] in ("bound", "renew") else None

    def renew(self, timeout: float | None = None) -> ClientLease | None:
        assert self._process is not None, "it has a lease"
        self._drain()
        self._process.send_signal(signal.SIGUSR1)
        return self._await_lease(timeout, "nak", "deconfig")

    def release(self) -> None:
        assert self._process is not None, "it has a lease"
        self._drain()
        self._process.send_signal(signal.SIGUSR2)
        until = time.monotonic() + self.timeout
        event = self._next_event(until)
        assert event is not None, f"udhcpc released nothing in {self.timeout} seconds"
        self.end()


class Dhclient(DhcpClient[L]):
    """``dhclient`` of ISC.  It renews from its lease file, as after a boot."""

    PROGRAM = "dhclient"
    FAMILY: ClassVar[str]
    REASONS: ClassVar[frozenset[str]]

    def _command(self) -> list[str]:
        (self._directory / "conf").write_text(self._configuration())
        return [*self._dhclient(), "-d", _device(self.instance)]

    def _dhclient(self) -> list[str]:
        files = {"-cf": "conf", "-lf": "leases", "-pf": "pid"}
        paths = [word for flag, name in files.items() for word in (flag, self._path(name))]
        script = ["-sf", str(self._script), "-e", f"EVENTS={self._fifo}"]
        return [self.PROGRAM, self.FAMILY, *paths, *script]

    def _path(self, name: str) -> str:
        return str(self._directory / name)

    @abstractmethod
    def _configuration(self) -> str: ...

    def _forget(self) -> None:
        (self._directory / "leases").unlink(missing_ok=True)

    def renew(self, timeout: float | None = None) -> L | None:
        self.end()
        return self._begin(timeout)

    def release(self) -> None:
        self.end()
        self.instance.run([*self._dhclient(), "-r", _device(self.instance)], timeout=self.timeout)
        self._drain()


class Dhclient4(Dhclient[ClientLease]):
    """``dhclient -4``."""

    FAMILY = "-4"
    REASONS = frozenset({"BOUND", "RENEW", "REBIND", "REBOOT"})
    NAMED = "subnet-mask, routers, domain-name-servers, domain-name, host-name, interface-mtu"
    NUMBERS = frozenset({1, 3, 6, 12, 15, 26, 28})
    """Options that have a name of their own."""

    def _configuration(self) -> str:
        numbers = sorted((self._requested | DEFAULT_OPTIONS) - self.NUMBERS)
        return _asking("", numbers, self.NAMED) + "initial-delay 0; initial-interval 1;\n"

    def _lease_of(self, event: ScriptEvent) -> ClientLease | None:
        return lease_of_dhclient(event) if event["event"] in self.REASONS else None


class Dhclient6(Dhclient[Lease6]):
    """``dhclient -6``, for addresses or (*stateless*) for all but addresses."""

    FAMILY = "-6"
    REASONS = frozenset({"BOUND6", "RENEW6", "REBIND6"})

    def __init__(
        self,
        instance: Instance,
        requested: Collection[int] = (),
        timeout: float = TIMEOUT,
        *,
        stateless: bool = False,
    ) -> None:
        super().__init__(instance, requested, timeout)
        self._stateless = stateless

    def _dhclient(self) -> list[str]:
        return [*super()._dhclient(), *(["-S"] if self._stateless else [])]

    def _configuration(self) -> str:
        named = "dhcp6.name-servers, dhcp6.domain-search"
        return _asking("dhcp6.", sorted(self._requested | DEFAULT_OPTIONS6), named)

    def _lease_of(self, event: ScriptEvent) -> Lease6 | None:
        return lease6_of_dhclient(event) if event["event"] in self.REASONS else None

    def _begin(self, timeout: float | None) -> Lease6 | None:
        """Start dhclient when the device has a source address: it exits at once without one."""
        until = time.monotonic() + self.timeout
        while not self.instance.call(_has_link_local, _device(self.instance)):
            if time.monotonic() > until:
                return None
            time.sleep(0.01)
        return super()._begin(timeout)


def _runs_in_group(group: int) -> bool:
    """Return whether a process of the process group *group* runs; a zombie does not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            state, _, of, *_ = path.read_text().rpartition(")")[2].split()
            if int(of) == group and state not in "ZX":
                return True
    return False


def _has_link_local(device: str) -> bool:
    """Return whether the device has a usable link-local address.

    The kernel creates it some time after the device is up.
    """
    for line in Path("/proc/thread-self/net/if_inet6").read_text().splitlines():
        _, _, _, scope, flags, name = line.split()
        if name == device and scope == _LINK_SCOPE and not int(flags, 16) & _TENTATIVE:
            return True
    return False


def solicit(instance: Instance, timeout: float = TIMEOUT) -> Announcement | None:
    """Solicit a router advertisement; ``None``: none arrived within *timeout* seconds.

    :raises BackendBroken: ``rdisc6`` is not installed.
    """
    _require("rdisc6")
    tries = max(1, round(timeout))
    wait = str(round(1000 * timeout / tries))
    completed = instance.attempt(
        ["rdisc6", "-1", "-r", str(tries), "-w", wait, _device(instance)], timeout=timeout + 5
    )
    return announcement_of_rdisc6(completed.output) if completed.status == 0 else None


def _asking(space: str, numbers: Iterable[int], named: str) -> str:
    """Return a configuration of dhclient that requests *named* options and *numbers*."""
    names = {number: f"{space}{OPTION_NUMBER.replace('_', '-')}{number}" for number in numbers}
    definitions = (
        f"option {name} code {n} = array of unsigned integer 8;\n" for n, name in names.items()
    )
    return "".join(definitions) + f"request {', '.join([named, *names.values()])};\n"


def _require(program: str) -> None:
    if shutil.which(program, path=search_path()) is None:
        raise BackendBroken(f"not installed: {program} (apt install {_PACKAGES[program]})")


def _device(instance: Instance) -> str:
    assert instance.device is not None, f"{instance.name} is not plugged"
    return instance.device
