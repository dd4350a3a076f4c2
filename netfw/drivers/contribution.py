"""What agent extensions add to switches and routers."""

from __future__ import annotations

import enum

from attrs import field, frozen

from netfw.flows.flow import Flow
from netfw.model.address import IpAddress, IpInterface, no_scope
from netfw.model.qos import QosRule


@frozen(kw_only=True)
class SwitchContribution:
    """Flows in the tables of its grant, and what the port it is for may take of the wire.

    The switch driver knows how its backend limits, guarantees and marks.
    """

    owner: str
    flows: tuple[Flow, ...] = ()
    qos: tuple[QosRule, ...] = ()
    """Draft: may change without notice.  No switch driver accepts it yet."""


class RuleTable(enum.StrEnum):
    """The kernel's tables."""

    RAW = "raw"
    MANGLE = "mangle"
    NAT = "nat"
    FILTER = "filter"


class RuleChain(enum.StrEnum):
    """Where in a table."""

    PREROUTING = "PREROUTING"
    INPUT = "INPUT"
    FORWARD = "FORWARD"
    OUTPUT = "OUTPUT"
    POSTROUTING = "POSTROUTING"


@frozen(kw_only=True)
class RouterRule:
    """One rule of the extension's own chain, which is entered from ``chain``."""

    table: RuleTable
    chain: RuleChain
    ip_version: int = 4
    words: tuple[str, ...] = field()
    """Match and target in iptables' words.  A word is one argument and cannot become two."""

    @words.validator
    def _check(self, _: object, words: tuple[str, ...]) -> None:
        for word in words:
            if not word or not word.isprintable() or set(word) & set(" \"'\\"):
                raise ValueError(f"not one word of a rule: {word!r}")


@frozen(kw_only=True)
class AddressQos:
    """What one address may take of a router's gateway."""

    address: IpAddress = field(validator=no_scope)
    rules: tuple[QosRule, ...]


@frozen(kw_only=True)
class RouterContribution:
    """Rules, addresses of the gateway's device, and what addresses may take of it."""

    owner: str
    rules: tuple[RouterRule, ...] = ()
    addresses: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    qos: tuple[AddressQos, ...] = ()
