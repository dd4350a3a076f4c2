"""Groups that rules refer to.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from netfw.drivers.firewall import Member, Rules
from netfw.drivers.values.keys import AddressGroupKey, GroupKey
from netfw.model.security_group import SecurityGroupRule
from netfw.model.values.address import IpNetwork, Mac

Remote = tuple[GroupKey | AddressGroupKey, int]
"""Group that rules refer to, and IP version."""

EVERYTHING: dict[int, IpNetwork] = {4: ip_network("0.0.0.0/0"), 6: ip_network("::/0")}
"""All addresses, by IP version."""


def remote_of(member: Member) -> Remote:
    """Return the group and IP version of a member."""
    return member.group, member.prefix.version


def make_mac_member(remote: Remote, mac: Mac) -> Member:
    """Return the member that is matched by its MAC address, as it may have every address."""
    group, version = remote
    return Member(group, EVERYTHING[version], mac)


def remotes(rules: Rules) -> frozenset[Remote]:
    """Return the groups that *rules* refer to."""
    return frozenset(remote for rule in rules.rules for remote in remotes_of(rule))


def remotes_of(rule: SecurityGroupRule) -> Iterator[Remote]:
    """Yield the group that *rule* refers to, if any."""
    version = rule.ethertype.ip_version
    if rule.remote_group_id is not None:
        yield GroupKey(rule.remote_group_id), version
    if rule.remote_address_group_id is not None:
        yield AddressGroupKey(rule.remote_address_group_id), version
