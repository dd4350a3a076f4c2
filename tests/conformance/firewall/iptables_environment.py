"""Environments for the firewall on iptables: Linux bridges on a host of a lab."""

from __future__ import annotations

import re
from pathlib import Path

from netfw.linux.iptables import Backend, IptablesBinaries
from netfw.testing.lab.host import Host
from netfw_drivers.iptables.driver import IptablesFirewallDriver, IptablesHybridFirewallDriver
from tests.conformance.firewall.kernel_environment import (
    KernelBridgeEnvironment,
    KernelHybridEnvironment,
    KernelState,
)

TABLES = "raw", "mangle", "nat", "filter"
_COUNTERS = re.compile(r" ?\[\d+:\d+\] ?")
_FOREIGN = "192.0.2.77"


class IptablesState(KernelState):
    """The filters of a host, seen by the commands that everybody has."""

    def __init__(self, host: Host, suffix: str = "") -> None:
        self.host, self.suffix = host, suffix

    def dump_state(self) -> frozenset[str]:
        lines: set[str] = set()
        for tool in ("iptables", "ip6tables"):
            lines |= {f"{tool} {line}" for line in self._saved(f"{tool}{self.suffix}-save")}
        lines |= {f"ebtables {line}" for line in self._saved("ebtables-save")}
        return frozenset(lines | {f"ipset {line}" for line in self._saved("ipset", "save")})

    def _saved(self, *argv: str) -> list[str]:
        """Return the saved lines with their table and without counters, empty tables left out."""
        found, table = [], ""
        for line in self.host.run(list(argv)).splitlines():
            if line.startswith("*"):
                table = line
            elif line and not line.startswith(("#", "COMMIT", ":")):
                found.append(f"{table} {_COUNTERS.sub('', line)}")
            elif line.startswith(":") and " - " in line:
                found.append(f"{table} {line.split()[0]}")
        return found

    def lose_state(self) -> None:
        empty = "".join(f"*{table}\nCOMMIT\n" for table in TABLES)
        for tool in ("iptables", "ip6tables"):
            self.host.run([f"{tool}{self.suffix}-restore"], input=empty)
        for table in ("filter", "nat"):
            self.host.run(["ebtables", "-t", table, "-F"])
            self.host.run(["ebtables", "-t", table, "-X"])
        self.host.run(["ipset", "destroy"])

    def make_foreign(self) -> None:
        self.host.run([f"iptables{self.suffix}", "-A", "FORWARD", "-s", _FOREIGN, "-j", "DROP"])
        self.host.run(["ipset", "create", "foreign", "hash:ip"])

    def foreign_is_intact(self) -> bool:
        gone = [
            self.host.attempt(
                [f"iptables{self.suffix}", "-D", "FORWARD", "-s", _FOREIGN, "-j", "DROP"]
            ),
            self.host.attempt(["ipset", "destroy", "foreign"]),
        ]
        return not any(completed.status for completed in gone)


class IptablesEnvironment(KernelBridgeEnvironment):
    """Ports of Linux bridges."""

    def __init__(self, host: Host, backend: Backend = Backend.SYSTEM) -> None:
        super().__init__(host)
        self.tool = IptablesBinaries(backend)
        self.state = IptablesState(host, str(backend.value))

    def make_firewall(self) -> IptablesFirewallDriver:
        return IptablesFirewallDriver(self.tool, namespace=Path(self.host.namespaces.space("net")))


class IptablesHybridEnvironment(KernelHybridEnvironment):
    """Ports of br-int, each behind a Linux bridge of its own."""

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.state = IptablesState(host, Backend.NFT.value)

    def make_firewall(self) -> IptablesHybridFirewallDriver:
        namespace = Path(self.host.namespaces.space("net"))
        return IptablesHybridFirewallDriver(IptablesBinaries(Backend.NFT), namespace=namespace)
