"""ipset: sets of addresses as values, changed by what differs, replaced in one step."""

from netfw.linux.ipset.sets import IpSets
from netfw.linux.ipset.values import IpSet, Member, PortMember, SetKind, SetType, full_name

__all__ = ["IpSet", "IpSets", "Member", "PortMember", "SetKind", "SetType", "full_name"]
