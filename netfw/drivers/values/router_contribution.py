"""Contributions of agent extensions to routers."""

from __future__ import annotations

import enum
from ipaddress import IPv6Address

from attrs import field, frozen
from attrs.validators import matches_re, optional

from netfw.model.qos import QosRule
from netfw.model.values.address import IpAddress, IpInterface, no_scope
from netfw.model.values.ids import FloatingIpId, PortId

_SUBCHAIN = r"[a-z0-9-]{0,64}"


class RuleTable(enum.StrEnum):
    """A table of iptables."""

    RAW = "raw"
    MANGLE = "mangle"
    NAT = "nat"
    FILTER = "filter"


class RuleChain(enum.StrEnum):
    """A built-in chain of a table."""

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
    """Match and target as arguments of iptables.  A word is one argument and cannot become two."""
    floating_ip: FloatingIpId | None = None
    """The floating IP that the rule belongs to: if the rule is refused, its ``FloatingIpKey`` fails
    alone, whether or not the update names it.  ``None``: the router fails."""
    in_port: PortId | None = None
    """The interface or gateway by which matched packets come in.  A part of a router without this
    port leaves the rule out, since no packet there could match it."""
    out_port: PortId | None = None
    """The interface or gateway by which matched packets leave, as for `in_port`."""
    local: bool = False
    """The rule is wanted at the local part of a distributed router, too, where the gateway is the
    link to the agent gateway (``LocalRouter.gateway_port``)."""
    subchain: str = field(default="", validator=matches_re(_SUBCHAIN))
    """A chain of the extension below that of ``chain``, which has the rule.  It is entered by rules
    that name it in `enter`; ``RETURN`` and its end go back to these."""
    enter: str = field(default="", validator=matches_re(_SUBCHAIN))
    """The subchain that matched packets enter; `words` has matches alone."""
    subject: str = ""
    """What the rule is for, as text for operators: if the rule is refused, it is left out, and the
    router, which is in force otherwise, fails with ``PartlyInvalid``, which names it.  Empty: the
    rule is not left out."""

    @words.validator
    def _check(self, _: object, words: tuple[str, ...]) -> None:
        for word in words:
            if not word or not word.isprintable() or set(word) & set(" \"'\\"):
                raise ValueError(f"not one word of a rule: {word!r}")


@frozen(kw_only=True)
class AddressQos:
    """QoS rules of one address at a router's gateway, or of a floating IP at a local part.

    The limits of the gateway's own address are for what has no entry of its own.
    """

    address: IpAddress = field(validator=no_scope)
    fixed_address: IpAddress | None = field(default=None, validator=optional(no_scope))
    """The inside address that the address, as a floating IP, stands for as a whole."""
    rules: tuple[QosRule, ...] = ()


@frozen(kw_only=True)
class RouterContribution:
    """Rules, addresses of the gateway's device, proxied addresses, and QoS rules of addresses."""

    owner: str
    rules: tuple[RouterRule, ...] = ()
    addresses: tuple[IpInterface, ...] = field(default=(), validator=no_scope)
    qos: tuple[AddressQos, ...] = ()
    proxied: tuple[IPv6Address, ...] = field(default=(), validator=no_scope)
    """IPv6 addresses behind the router for which the gateway answers its neighbours; they reach the
    router then, which forwards to them.  Of a distributed router, the central part answers."""
