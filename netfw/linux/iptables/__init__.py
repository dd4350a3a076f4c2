"""iptables and ip6tables: rules as values, difference, atomic restore, an owner for each chain."""

from netfw.linux.iptables.binaries import Backend, IptablesBinaries
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.quoting import Not
from netfw.linux.iptables.rule import (
    ACCEPT,
    DROP,
    RETURN,
    Family,
    IptablesMatch,
    IptablesRule,
    Jump,
    Target,
    match,
    target,
)
from netfw.linux.iptables.tables import Iptables

__all__ = [
    "ACCEPT",
    "DROP",
    "RETURN",
    "Backend",
    "Chain",
    "ChainKey",
    "Family",
    "Iptables",
    "IptablesBinaries",
    "IptablesMatch",
    "IptablesRule",
    "Jump",
    "Not",
    "Target",
    "match",
    "target",
]
