"""Environments for the nftables firewall: Linux bridges on a host of a lab."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from netfw.linux.nftables.library import NftContext
from netfw.testing.lab.host import Host
from netfw_drivers.nftables.driver import NftablesFirewallDriver, NftablesHybridFirewallDriver
from tests.conformance.firewall.kernel_environment import (
    KernelBridgeEnvironment,
    KernelHybridEnvironment,
    KernelState,
)

_FOREIGN = """
table inet foreign {
  set addresses { type ipv4_addr; elements = { 192.0.2.77 } ; }
  chain forward { type filter hook forward priority 10; ip saddr @addresses drop; }
}
table bridge foreign { chain forward { type filter hook forward priority 10; counter; } ; }
"""


class NftablesState(KernelState):
    """All of nftables on a host."""

    def __init__(self, host: Host) -> None:
        self.namespace = Path(host.namespaces.space("net"))

    @cached_property
    def _context(self) -> NftContext:
        return NftContext(self.namespace)

    def run(self, commands: str) -> str:
        answer = self._context.run(commands)
        assert answer.ok, answer.errors
        return answer.output

    def entries(self) -> list[dict[str, Any]]:
        """Return all objects without handles and counters."""
        found = []
        for entry in json.loads(self.run("list ruleset") or '{"nftables": []}')["nftables"]:
            for kind, body in entry.items():
                if kind != "metainfo":
                    body.pop("handle", None)
                    found.append({kind: body})
        return found

    def dump_state(self) -> frozenset[str]:
        places: dict[str, int] = {}
        lines = set()
        for entry in self.entries():
            for element in entry.get("set", entry.get("map", {})).pop("elem", ()):
                lines.add(f"{json.dumps(entry)} has {json.dumps(element)}")
            text = json.dumps(entry)
            chain = entry.get("rule", {}).get("chain", "")
            places[chain] = places.get(chain, 0) + 1
            lines.add(f"{places[chain] if chain else ''} {text}")
        return frozenset(lines)

    def lose_state(self) -> None:
        self.run("flush ruleset")

    def make_foreign(self) -> None:
        self.run(_FOREIGN)

    def foreign_is_intact(self) -> bool:
        own = [entry for entry in self.entries() if "foreign" in json.dumps(entry)]
        self.run("delete table inet foreign; delete table bridge foreign")
        return len(own) == 7 and "192.0.2.77" in json.dumps(own)


class NftablesEnvironment(KernelBridgeEnvironment):
    """Ports of Linux bridges."""

    state: NftablesState

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.state = NftablesState(host)

    def make_firewall(self) -> NftablesFirewallDriver:
        return NftablesFirewallDriver(namespace=self.state.namespace)


class NftablesHybridEnvironment(KernelHybridEnvironment):
    """Ports of br-int, each behind a Linux bridge of its own."""

    state: NftablesState

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.state = NftablesState(host)

    def make_firewall(self) -> NftablesHybridFirewallDriver:
        return NftablesHybridFirewallDriver(namespace=self.state.namespace)
