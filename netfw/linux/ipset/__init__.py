"""ipset: sets of addresses as values, changed by what differs, replaced in one step."""

from netfw.linux.ipset.members import IpSet, Member, PortMember, SetKind, SetType, full_name
from netfw.linux.ipset.sets import IpSets

__all__ = ["IpSet", "IpSets", "Member", "PortMember", "SetKind", "SetType", "full_name"]
