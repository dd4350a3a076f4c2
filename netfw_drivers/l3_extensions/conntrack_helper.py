"""ConntrackHelperExtension: has modules of connection tracking read connections of routers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import ClassVar, Final

from netfw.drivers.l3_extension import ExtendedRouter
from netfw.drivers.values.pipeline_grant import Grant
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.model import l3_extensions
from netfw.model.router import ConntrackHelper, HelperProtocol
from netfw.model.values.ids import RouterId
from netfw_drivers.l3_extensions.optionless import OptionlessExtension

KERNEL_NAMES: Final[Mapping[tuple[str, HelperProtocol], str]] = MappingProxyType(
    {("h323", HelperProtocol.TCP): "Q.931", ("h323", HelperProtocol.UDP): "RAS"}
)
"""Names in the kernel, where they are others than in the API."""
IPV4_ONLY: Final = frozenset({"irc", "netbios-ns", "pptp", "snmp"})
"""Helpers that the kernel has for IPv4 alone."""


class ConntrackHelperExtension(OptionlessExtension):
    """Gives the connections to a port the helper that the router has for it.

    A helper that the kernel of this host does not have is left out, and the router says so.
    """

    NAME: ClassVar[str] = l3_extensions.CONNTRACK_HELPER
    OWNER: ClassVar[str | None] = "conntrack"
    """Short, as the names of its chains have to be."""

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        rules = tuple(
            rule for helper in value.router.conntrack_helpers for rule in make_rules(helper)
        )
        return RouterContribution(owner=grant.owner, rules=rules) if rules else None


def make_rules(helper: ConntrackHelper) -> Iterator[RouterRule]:
    """Yield the rules of one conntrack helper, as ``iptables-save`` prints them."""
    protocol = helper.protocol.value
    name = KERNEL_NAMES.get((helper.helper, helper.protocol), helper.helper)
    match = ("-p", protocol, "-m", protocol, "--dport", str(helper.port))
    comment = ("-m", "comment", "--comment", f"cth-{helper.id}")
    for version in (4,) if helper.helper in IPV4_ONLY else (4, 6):
        yield RouterRule(
            table=RuleTable.RAW,
            chain=RuleChain.PREROUTING,
            ip_version=version,
            words=(*match, *comment, "-j", "CT", "--helper", name),
            subject=f"IPv{version} conntrack helper {helper.helper} for {protocol} port "
            f"{helper.port}",
            local=True,
        )
