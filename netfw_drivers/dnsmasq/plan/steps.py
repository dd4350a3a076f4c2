"""What can be done to the files, leases and processes of a network.  Pure values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from attrs import field, frozen

from netfw.drivers.dhcp import DhcpNetwork, DhcpPort
from netfw.linux.fs.atomic_files import FileChange, RemoveFile, WriteFile
from netfw.linux.process.program import ProcessKey, Program
from netfw.model.ids import NetworkId, PortId
from netfw_drivers.dnsmasq.config.host_lease_files import HostEntry, Lease
from netfw_drivers.dnsmasq.config.paths import NetworkPaths
from netfw_drivers.dnsmasq.config.render import NetworkText, PortText
from netfw_drivers.dnsmasq.plan.observed import Reload

SERVICE = "dnsmasq"
TOMB = ".gone"
"""What the name of a tombstone ends with, beside the port's id."""


def process_key(network: NetworkId) -> ProcessKey:
    return ProcessKey(SERVICE, str(network))


def tomb_of(files: NetworkPaths, port: PortId) -> Path:
    """Where it says that *port* is gone."""
    return files.host / f"{port}{TOMB}"


def server_of(files: NetworkPaths) -> Path:
    """Where it says which port the network is served from."""
    return files.directory / "port"


def reload_of(files: NetworkPaths) -> Path:
    """A file that is there while dnsmasq has to be told that files changed."""
    return files.directory / "reload"


@cache
def _folders(files: NetworkPaths) -> tuple[str, str, str]:
    """Where the files of ports are, once per network: options, names and hosts."""
    return str(files.opts), str(files.addn_hosts), str(files.host)


def _paths(files: NetworkPaths, port: PortId) -> tuple[str, str, str]:
    name, (opts, names, host) = str(port), _folders(files)
    return f"{opts}/{name}", f"{names}/{name}", f"{host}/{name}"


@frozen
class MarkReload:
    """Note that dnsmasq has to be told, before anything is changed that it must be told of."""

    files: NetworkPaths
    how: Reload

    @property
    def text(self) -> str:
        return f"write {reload_of(self.files)}: {self.how.value}"

    def changes(self) -> Sequence[FileChange]:
        return (WriteFile(str(reload_of(self.files)), f"{self.how.value}\n"),)


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
            WriteFile(str(server_of(self.files)), f"{self.value.server.id}\n"),
            WriteFile(str(self.files.network_opts), self.wanted.opts),
        )


@frozen(kw_only=True)
class PutPort:
    """Write the files of a port; one that would be empty is not there, but for ``host``."""

    files: NetworkPaths
    port: PortId
    wanted: PortText
    former: PortText | None
    value: DhcpPort

    @property
    def text(self) -> str:
        return f"write {self.files.host_of(self.port)}: {self.wanted.host.rstrip()!r}"

    def changes(self) -> Sequence[FileChange]:
        """Options and names first: who is answered is answered with all of them."""
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
    """Remove the files of a port; the tombstone, if dnsmasq is to forget it now, comes first."""

    files: NetworkPaths
    port: PortId
    tomb: str | None
    entry: HostEntry

    @property
    def text(self) -> str:
        said = f", and say so: {self.tomb.rstrip()!r}" if self.tomb else ""
        return f"remove {self.files.host_of(self.port)}{said}"

    def changes(self) -> Sequence[FileChange]:
        tomb = (WriteFile(str(tomb_of(self.files, self.port)), self.tomb),) if self.tomb else ()
        opts, names, host = _paths(self.files, self.port)
        return (*tomb, RemoveFile(host), RemoveFile(names), RemoveFile(opts))


@frozen
class RemoveTomb:
    """Remove the tombstone of a port: dnsmasq reads everything anew, or knows better already."""

    files: NetworkPaths
    port: PortId

    @property
    def text(self) -> str:
        return f"remove {tomb_of(self.files, self.port)}"

    def changes(self) -> Sequence[FileChange]:
        return (RemoveFile(str(tomb_of(self.files, self.port))),)


@frozen
class SeedLeases:
    """Write the first lease file, so that nobody is refused what he has from elsewhere."""

    files: NetworkPaths
    entries: tuple[HostEntry, ...]

    @property
    def text(self) -> str:
        return f"write {self.files.leases}: {len(self.entries)} ports have their leases"


@frozen
class ForgetLeases:
    """Take leases out of the lease file; nobody runs who would write them again."""

    files: NetworkPaths
    leases: tuple[Lease, ...]

    @property
    def text(self) -> str:
        return f"write {self.files.leases} without {', '.join(str(x.address) for x in self.leases)}"


@frozen(kw_only=True)
class ReleaseLease:
    """Give a lease back, so that the address can be had by somebody else."""

    files: NetworkPaths
    netns: str
    device: str
    lease: Lease
    stray: bool = False
    """It is nobody's: whether dnsmasq takes it back concerns nobody."""

    @property
    def text(self) -> str:
        return " ".join(self.lease.release(self.device))


@frozen
class RunServer:
    """Start dnsmasq; one that runs otherwise, or with *again* as it should, is ended before.

    Leases that are given back are taken out of its file meanwhile: it may hear nobody any more, or
    serve their addresses no longer.
    """

    files: NetworkPaths
    program: Program = field(hash=False)
    again: bool = False
    forget: tuple[Lease, ...] = ()

    @property
    def text(self) -> str:
        without = [f"without {each.address}:" for each in self.forget]
        return " ".join((*(["again:"] if self.again else []), *without, *self.program.argv))


@frozen
class SignalServer:
    """Have dnsmasq read all its files anew."""

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
    """Remove everything that is on disk of the network."""

    files: NetworkPaths

    @property
    def text(self) -> str:
        return f"rm -r {self.files.directory}"


FileStep = MarkReload | PutNetwork | PutPort | DropPort | RemoveTomb | SeedLeases | ForgetLeases
Step = FileStep | ReleaseLease | RunServer | SignalServer | StopServer | RemoveFiles
