"""Dispatch of packets to the chain of their port and the zone of their network.  Pure.

Device names are matched in two steps (see
:func:`~netfw_drivers.iptables.plan.names.bucket_of`): a
root chain leads to the chain of a bucket, and that to the chains of its ports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from netfw.linux.bridge_firewall.values import Zone
from netfw.linux.ebtables.chains import FrameChain, FrameRule
from netfw.linux.iptables.chain import Chain, ChainKey
from netfw.linux.iptables.rule import ACCEPT, Family, IptablesRule, Jump, match, target
from netfw.model.values.ids import NetworkId, PortId
from netfw_drivers.iptables.plan.group_chains import Chains, in_table
from netfw_drivers.iptables.plan.names import RECEIVED, SENT, bucket_chain, short
from netfw_drivers.iptables.plan.port_chains import frames_name

SENT_ROOT, TAKEN_ROOT = "sent", "taken"
"""Root chains of packets from ports, and to ports."""
ZONES_ROOT, ZONED_ROOT, BRIDGE_ROOT = "zones", "zoned", "bridge"
"""Root chains: zones of packets that a bridge receives, zones of packets that this host sends by
a bridge, and packets that pass bridges."""
GUARD_ROOT, CASTER_ROOT, PLAIN = "guard", "caster", "plain"
"""Root chains of frames from ports and to ports, and the chain of frames that any port may
receive."""

_BRIDGED = match("physdev", physdev_is_bridged=True)
_ZONE = re.compile(r"-i (\S+) -m comment --comment (\S+) -j CT --(?:zone (\d+)|notrack)")


def read_zone(line: str) -> tuple[str, Zone] | None:
    """Parse the bridge and its zone from a rule; ``None``: the rule has none."""
    found = _ZONE.fullmatch(line)
    if found is None:
        return None
    try:
        number = int(found[3]) if found[3] else None
        return found[1], Zone(number, NetworkId(UUID(found[2])))
    except ValueError:
        return None


def device_chains(family: Family, bucket: str, ports: Mapping[str, PortId]) -> Chains:
    """Build the chains that dispatch by the devices of a bucket."""
    sent, to = [], []
    for device, port in sorted(ports.items()):
        came = match("physdev", physdev_in=device)
        goes = match("physdev", physdev_out=device, physdev_is_bridged=True)
        sent.append(IptablesRule(target=Jump(f"{SENT}{short(port)}"), matches=(came,)))
        to.append(IptablesRule(target=Jump(f"{RECEIVED}{short(port)}"), matches=(goes,)))
    return {
        in_table(family, bucket_chain(SENT_ROOT, bucket)): Chain(tuple(sent)),
        in_table(family, bucket_chain(TAKEN_ROOT, bucket)): Chain(tuple(to)),
    }


def bridge_chains(family: Family, bucket: str, zones: Mapping[str, Zone]) -> Chains:
    """Build the chains that assign zones to packets that cross the bridges of a bucket.

    Packets of other ports pass, as on a bridge without a firewall.
    """
    into, out, passing = [], [], []
    for bridge, zone in sorted(zones.items()):
        chosen = target("CT", zone=zone.number) if zone.number else target("CT", notrack=True)
        note = str(zone.network)
        into.append(IptablesRule(target=chosen, in_device=bridge, comment=note))
        out.append(IptablesRule(target=chosen, out_device=bridge, comment=note))
        passing.append(IptablesRule(target=ACCEPT, in_device=bridge, matches=(_BRIDGED,)))
    return {
        _raw(family, bucket_chain(ZONES_ROOT, bucket)): Chain(tuple(into)),
        _raw(family, bucket_chain(ZONED_ROOT, bucket)): Chain(tuple(out)),
        _filter(family, bucket_chain(BRIDGE_ROOT, bucket)): Chain(tuple(passing)),
    }


def device_chain_keys(bucket: str) -> list[ChainKey]:
    """Return the keys of :func:`device_chains`, both families."""
    return [key for family in Family for key in device_chains(family, bucket, {})]


def bridge_chain_keys(bucket: str) -> list[ChainKey]:
    """Return the keys of :func:`bridge_chains`, both families."""
    return [key for family in Family for key in bridge_chains(family, bucket, {})]


def root_chains(family: Family, devices: Iterable[str], bridges: Iterable[str]) -> Chains:
    """Build the chains that the built-in ones jump to; *devices* and *bridges* are buckets."""
    sent, to, zones, zoned, passing = [], [], [], [], []
    for bucket in sorted(devices):
        sent.append(_jump_rule(SENT_ROOT, bucket, "physdev_in"))
        to.append(_jump_rule(TAKEN_ROOT, bucket, "physdev_out"))
    for bucket in sorted(bridges):
        wild = f"{bucket}+" if bucket else None
        to_zone = Jump(bucket_chain(ZONES_ROOT, bucket))
        zones.append(IptablesRule(target=to_zone, in_device=wild))
        zoned.append(IptablesRule(target=Jump(bucket_chain(ZONED_ROOT, bucket)), out_device=wild))
        passing.append(IptablesRule(target=Jump(bucket_chain(BRIDGE_ROOT, bucket)), in_device=wild))
    hook = frozenset
    return {
        in_table(family, SENT_ROOT): Chain(tuple(sent), hook({"PREROUTING"})),
        in_table(family, TAKEN_ROOT): Chain(tuple(to), hook({"FORWARD"})),
        _filter(family, BRIDGE_ROOT): Chain(tuple(passing), hook({"FORWARD"})),
        _raw(family, ZONES_ROOT): Chain(tuple(zones), hook({"PREROUTING"})),
        _raw(family, ZONED_ROOT): Chain(tuple(zoned), hook({"OUTPUT"})),
    }


def root_keys() -> list[ChainKey]:
    """Return the keys of :func:`root_chains`, both families."""
    return [key for family in Family for key in root_chains(family, (), ())]


def frame_chains(bucket: str, ports: Mapping[str, PortId]) -> dict[str, FrameChain]:
    """Build the chains that dispatch frames from devices, and filter frames to them."""
    into, out = [], []
    for device, port in sorted(ports.items()):
        into.append(FrameRule(in_device=device, chain=frames_name(port)))
        out.append(FrameRule(out_device=device, chain=PLAIN))
    return {
        bucket_chain(GUARD_ROOT, bucket): FrameChain(tuple(into)),
        bucket_chain(CASTER_ROOT, bucket): FrameChain(tuple(out)),
    }


def frame_roots(buckets: Iterable[str]) -> dict[str, FrameChain]:
    """Build the chains that the built-in ones jump to, and those that all ports share."""
    into, out = [], []
    for bucket in sorted(buckets):
        wild = f"{bucket}+" if bucket else None
        into.append(FrameRule(in_device=wild, chain=bucket_chain(GUARD_ROOT, bucket)))
        out.append(FrameRule(out_device=wild, chain=bucket_chain(CASTER_ROOT, bucket)))
    known = tuple(FrameRule(protocol=name) for name in ("ARP", "IPv4", "IPv6"))
    return {
        PLAIN: FrameChain(known, policy="DROP"),
        GUARD_ROOT: FrameChain(tuple(into), hook="PREROUTING"),
        CASTER_ROOT: FrameChain(tuple(out), hook="POSTROUTING"),
    }


def _jump_rule(kind: str, bucket: str, option: str) -> IptablesRule:
    jump = Jump(bucket_chain(kind, bucket))
    if not bucket:
        return IptablesRule(target=jump)
    if option == "physdev_in":
        return IptablesRule(target=jump, matches=(match("physdev", physdev_in=f"{bucket}+"),))
    wild = match("physdev", physdev_out=f"{bucket}+", physdev_is_bridged=True)
    return IptablesRule(target=jump, matches=(wild,))


def _filter(family: Family, name: str) -> ChainKey:
    return ChainKey(family=family, table="filter", name=name)


def _raw(family: Family, name: str) -> ChainKey:
    return ChainKey(family=family, table="raw", name=name)
