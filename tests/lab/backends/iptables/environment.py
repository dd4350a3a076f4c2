"""A host with Linux bridges and the firewall on iptables."""

from __future__ import annotations

from itertools import product
from uuid import UUID

from netfw.linux.iptables import Backend, IptablesBinaries
from netfw.testing.lab.host import Host
from netfw_drivers.iptables.driver import IptablesFirewallDriver
from netfw_drivers.iptables.plan.names import short
from tests.lab.linux.bridge_firewall.environment import FirewallHost


class IptablesHost(FirewallHost):
    """The host, and a driver on it."""

    def __init__(self, host: Host, backend: Backend) -> None:
        self.backend = backend
        super().__init__(host)

    def another_driver(self) -> IptablesFirewallDriver:
        return IptablesFirewallDriver(IptablesBinaries(self.backend), namespace=self.namespace)

    def saved(self) -> dict[str, list[str]]:
        suffix = self.backend.value
        found = {}
        for command in (f"iptables{suffix}-save", f"ip6tables{suffix}-save", "ebtables-nft-save"):
            lines = self.host.run([command]).splitlines()
            found[command] = [line.split(" [")[0] for line in lines if line[:1] not in ("#", "")]
        found["ipset"] = sorted(self.host.run(["ipset", "save"]).splitlines())
        return found

    def lose_rules(self) -> None:
        for version, table in product(("", "6"), ("raw", "mangle", "filter")):
            for option in ("-F", "-X"):
                self.host.run([f"ip{version}tables{self.backend.value}", "-t", table, option])

    def run_as_operator(self, command: str, **ids: UUID) -> None:
        names = {name: short(id) for name, id in ids.items()}
        self.host.run(command.format(ip=f"iptables{self.backend.value}", **names).split())
