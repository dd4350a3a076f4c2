"""Paths of a network's files.  Pure."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from attrs import frozen

from netfw.model.values.ids import NetworkId, PortId


@frozen
class NetworkPaths:
    """Paths of one network.

    ``host``, ``addn_hosts`` and ``opts`` are directories with one file per port, named by its id.
    dnsmasq skips names that begin with a dot: a file that is still being written has such a one.
    """

    confs: Path
    network: NetworkId

    @cached_property
    def directory(self) -> Path:
        return self.confs / str(self.network)

    @cached_property
    def host(self) -> Path:
        """Directory of host files: addresses of ports."""
        return self.directory / "host"

    @cached_property
    def addn_hosts(self) -> Path:
        """Directory of names for DNS."""
        return self.directory / "addn_hosts"

    @cached_property
    def opts(self) -> Path:
        """Directory of options of ports, and in :attr:`network_opts` of the network."""
        return self.directory / "opts"

    @property
    def network_opts(self) -> Path:
        return self.opts / "network"

    @property
    def leases(self) -> Path:
        return self.directory / "leases"

    @property
    def interface(self) -> Path:
        """File with the name of the DHCP port's device."""
        return self.directory / "interface"

    @property
    def pid(self) -> Path:
        return self.directory / "pid"

    def host_of(self, port: PortId) -> Path:
        return self.host / str(port)

    def names_of(self, port: PortId) -> Path:
        return self.addn_hosts / str(port)

    def opts_of(self, port: PortId) -> Path:
        return self.opts / str(port)

    def log(self, directory: Path) -> Path:
        """Return the log file of queries and leases below *directory*."""
        return directory / str(self.network) / "dhcp_dns_log"
