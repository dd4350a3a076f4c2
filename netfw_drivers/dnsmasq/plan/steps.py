"""Steps on the files, leases and processes of a network.  Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attrs import field, frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.linux.fs.atomic_files import FileChange, RemoveFile, WriteFile
from netfw.linux.process.supervised_program import ProcessKey, Program
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.file_parsers import HostEntry, Lease
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import NetworkText, PortText
from netfw_drivers.dnsmasq.plan.observed import Reload

SERVICE = "dnsmasq"
TOMBSTONE_SUFFIX = ".gone"
"""Suffix of a tombstone's name, after the port's id."""


def process_key(network: NetworkId) -> ProcessKey:
    return ProcessKey(SERVICE, str(network))


def tombstone_path(files: NetworkPaths, port: PortId) -> Path:
    """Return the tombstone of *port*."""
    return files.host / f"{port}{TOMBSTONE_SUFFIX}"


def server_port_path(files: NetworkPaths) -> Path:
    """Return the file that names the network's DHCP port."""
    return files.directory / "port"


def reload_marker_path(files: NetworkPaths) -> Path:
    """Return the reload marker, which exists while a notification of dnsmasq is pending."""
    return files.directory / "reload"


@cache
def _folders(files: NetworkPaths) -> tuple[str, str, str]:
    """Return the directories of options, names and hosts; cached per network."""
    return str(files.opts), str(files.addn_hosts), str(files.host)


def _paths(files: NetworkPaths, port: PortId) -> tuple[str, str, str]:
    name, (opts, names, host) = str(port), _folders(files)
    return f"{opts}/{name}", f"{names}/{name}", f"{host}/{name}"


@frozen
class MarkReload:
    """Write the reload marker, before any change that dnsmasq must be notified of."""

    files: NetworkPaths
    method: Reload

    @property
    def text(self) -> str:
        return f"write {reload_marker_path(self.files)}: {self.method.value}"

    def changes(self) -> Sequence[FileChange]:
        return (WriteFile(str(reload_marker_path(self.files)), f"{self.method.value}\n"),)


@frozen(kw_only=True)
class PutNetwork:
    """Write the files of the network itself."""

    files: NetworkPaths
    wanted: NetworkText
    value: DhcpNetwork

    @property
    def text(self) -> str:
        return f"write {self.files.network_opts}: {self.wanted.opts.rstrip()!r}"

    def changes(self) -> Sequence[FileChange]:
        return (
            WriteFile(str(self.files.interface), self.wanted.interface),
            WriteFile(str(server_port_path(self.files)), f"{self.value.server.id}\n"),
            WriteFile(str(self.files.network_opts), self.wanted.opts),
        )


@frozen(kw_only=True)
class PutPort:
    """Write the files of a port; an empty file is omitted, except ``host``."""

    files: NetworkPaths
    port: PortId
    wanted: PortText
    former: PortText | None
    value: DhcpPort

    @property
    def text(self) -> str:
        return f"write {self.files.host_of(self.port)}: {self.wanted.host.rstrip()!r}"

    def changes(self) -> Sequence[FileChange]:
        """Return options and names first: an answer then has all of them."""
        opts, names, host = _paths(self.files, self.port)
        former = self.former or PortText()
        found: list[FileChange] = []
        for path, text, before in (
            (opts, self.wanted.opts, former.opts),
            (names, self.wanted.names, former.names),
        ):
            if text != before:
                found.append(WriteFile(path, text) if text else RemoveFile(path))
        if self.former is None or self.wanted.host != former.host:
            found.append(WriteFile(host, self.wanted.host))
        return found


@frozen(kw_only=True)
class DropPort:
    """Remove the files of a port; its tombstone, if dnsmasq needs one, is written first."""

    files: NetworkPaths
    port: PortId
    tombstone: str | None
    entry: HostEntry

    @property
    def text(self) -> str:
        tombstone = f", with a tombstone: {self.tombstone.rstrip()!r}" if self.tombstone else ""
        return f"remove {self.files.host_of(self.port)}{tombstone}"

    def changes(self) -> Sequence[FileChange]:
        tomb = (
            (WriteFile(str(tombstone_path(self.files, self.port)), self.tombstone),)
            if self.tombstone
            else ()
        )
        opts, names, host = _paths(self.files, self.port)
        return (*tomb, RemoveFile(host), RemoveFile(names), RemoveFile(opts))


@frozen
class RemoveTombstone:
    """Remove the tombstone of a port: dnsmasq reads all files, or the port is back."""

    files: NetworkPaths
    port: PortId

    @property
    def text(self) -> str:
        return f"remove {tombstone_path(self.files, self.port)}"

    def changes(self) -> Sequence[FileChange]:
        return (RemoveFile(str(tombstone_path(self.files, self.port))),)


@frozen
class SeedLeases:
    """Write the first lease file, so that dnsmasq accepts leases that another server gave."""

    files: NetworkPaths
    entries: tuple[HostEntry, ...]

    @property
    def text(self) -> str:
        return f"write {self.files.leases}: {len(self.entries)} ports have their leases"


@frozen
class ForgetLeases:
    """Remove leases from the lease file; no process runs that would write them again."""

    files: NetworkPaths
    leases: tuple[Lease, ...]

    @property
    def text(self) -> str:
        return f"write {self.files.leases} without {', '.join(str(x.address) for x in self.leases)}"


@frozen(kw_only=True)
class ReleaseLease:
    """Release a lease, so that another port can have the address."""

    files: NetworkPaths
    netns: str
    device: str
    lease: Lease
    orphaned: bool = False
    """It belongs to no port: a failed release is ignored."""

    @property
    def text(self) -> str:
        return " ".join(self.lease.release(self.device))


@frozen
class RunServer:
    """Start dnsmasq; one that runs another program, or any with *restart*, is stopped before.

    Released leases are removed from the lease file meanwhile: the running dnsmasq may not react,
    or no longer serve their addresses.
    """

    files: NetworkPaths
    program: Program = field(hash=False)
    restart: bool = False
    forget: tuple[Lease, ...] = ()

    @property
    def text(self) -> str:
        without = [f"without {each.address}:" for each in self.forget]
        return " ".join((*(["again:"] if self.restart else []), *without, *self.program.argv))


@frozen
class SignalServer:
    """Send SIGHUP: dnsmasq reads all its files."""

    files: NetworkPaths

    @property
    def text(self) -> str:
        return f"kill -HUP $(cat {self.files.pid})"


@frozen
class StopServer:
    network: NetworkId

    @property
    def text(self) -> str:
        return f"stop {process_key(self.network)}"


@frozen
class RemoveFiles:
    """Remove the network's directory."""

    files: NetworkPaths

    @property
    def text(self) -> str:
        return f"rm -r {self.files.directory}"


FileStep = (
    MarkReload | PutNetwork | PutPort | DropPort | RemoveTombstone | SeedLeases | ForgetLeases
)
Step = FileStep | ReleaseLease | RunServer | SignalServer | StopServer | RemoveFiles
