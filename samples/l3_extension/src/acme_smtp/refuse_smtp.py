"""RefuseSmtp: an extension that keeps instances from sending mail past a relay."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import Capability, DriverInfo, HostResources
from netfw.drivers.l3_extension import ExtendedRouter, L3Extension
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.router_contribution import (
    RouterContribution,
    RouterRule,
    RuleChain,
    RuleTable,
)
from netfw.errors import ConfigError
from netfw.model.values.ids import RouterId

TAG = "no-smtp"
SMTP = ("-p", "tcp", "-m", "tcp", "--dport", "25")
REJECT = ("-j", "REJECT", "--reject-with", "tcp-reset")


class RefuseSmtp(L3Extension):
    """Refuses connections to port 25 through routers with the tag ``no-smtp``."""

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.StrOpt("relay", help="The IPv4 address that instances may send mail to."),
    )

    def __init__(self, relay: IPv4Address | None = None) -> None:
        self._relay = relay

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        try:
            return cls(IPv4Address(options["relay"]) if options["relay"] else None)
        except ValueError as exc:
            raise ConfigError(f"relay is not an address like 192.0.2.25: {exc}") from exc

    def describe(self) -> DriverInfo[Capability]:
        return DriverInfo("refuse_smtp")

    def grant_request(self) -> GrantRequest:
        return GrantRequest(owner="refuse_smtp")

    def contribute(
        self, key: RouterId, value: ExtendedRouter, grant: Grant
    ) -> RouterContribution | None:
        if TAG not in value.router.tags:
            return None
        rules = [_rule(4, *SMTP, *REJECT), _rule(6, *SMTP, *REJECT)]
        if self._relay is not None:
            rules.insert(0, _rule(4, "-d", f"{self._relay}/32", *SMTP, "-j", "RETURN"))
        return RouterContribution(owner=grant.owner, rules=tuple(rules))


def _rule(ip_version: int, *words: str) -> RouterRule:
    return RouterRule(
        table=RuleTable.FILTER, chain=RuleChain.FORWARD, ip_version=ip_version, words=words
    )
