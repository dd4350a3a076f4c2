"""A host with Linux bridges and the nftables firewall."""

from __future__ import annotations

import json
from functools import cached_property
from uuid import UUID

from netfw.linux.nftables.library import NftContext
from netfw_drivers.nftables.driver import NftablesFirewallDriver
from tests.lab.linux.bridge_firewall.environment import FirewallHost


class NftablesHost(FirewallHost):
    """The host, and a driver on it."""

    def another_driver(self) -> NftablesFirewallDriver:
        return NftablesFirewallDriver(namespace=self.namespace)

    @cached_property
    def _context(self) -> NftContext:
        return NftContext(self.namespace)

    def nft(self, commands: str) -> str:
        """Run commands as an operator would by nft(8)."""
        answer = self._context.run(commands)
        assert answer.ok, answer.errors
        return answer.output

    def run_as_operator(self, command: str, **ids: UUID) -> None:
        self.nft(command.format(**ids))

    def lose_rules(self) -> None:
        self.nft("flush ruleset")

    def saved(self) -> dict[str, list[str]]:
        """Return the tables, without handles."""
        found: dict[str, list[str]] = {}
        for entry in json.loads(self.nft("list ruleset"))["nftables"]:
            for kind, body in entry.items():
                body.pop("handle", None)
                if isinstance(body.get("elem"), list):
                    body["elem"].sort(key=str)
                found.setdefault(body.get("table", ""), []).append(f"{kind} {json.dumps(body)}")
        return {table: sorted(lines) for table, lines in found.items()}
