"""Statements of rules, in the spelling in which libnftables lists them.  Pure."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any

from netfw.model.values.address import IpAddress, IpNetwork

Statement = dict[str, Any]
Expression = dict[str, Any]

ACCEPT: Statement = {"accept": None}
DROP: Statement = {"drop": None}
RETURN: Statement = {"return": None}
CONTINUE: Statement = {"continue": None}

INVALID, RELATED, REPLY = 0x10000000, 0x20000000, 0x30000000
"""State of a packet's connection, in two bits of its mark while it crosses a bridge; neither: the
packet is in the direction in which the connection was opened."""
STATE_MASK = 0x30000000
_OTHER_BITS = 0xFFFFFFFF ^ STATE_MASK

_PROTOCOLS = {4: "ip", 6: "ip6"}


def payload(protocol: str, field: str) -> Expression:
    return {"payload": {"protocol": protocol, "field": field}}


def meta(key: str) -> Expression:
    return {"meta": {"key": key}}


def match(left: Expression, right: object, op: str = "==") -> Statement:
    return {"match": {"op": op, "left": left, "right": right}}


def jump(chain: str) -> Statement:
    return {"jump": {"target": chain}}


def goto(chain: str) -> Statement:
    return {"goto": {"target": chain}}


def vmap(key: Expression, data: object) -> Statement:
    return {"vmap": {"key": key, "data": data}}


def concat(*parts: Expression) -> Expression:
    return {"concat": list(parts)}


def state_vmap(verdicts: dict[int, Statement]) -> Statement:
    """Decide by the state of the packet's connection."""
    key = {"&": [meta("mark"), STATE_MASK]}
    return vmap(key, {"set": [[state, verdict] for state, verdict in sorted(verdicts.items())]})


def set_state(state: int) -> Statement:
    """Mark a packet that has no state yet."""
    mark = meta("mark")
    if state == STATE_MASK:
        return {"mangle": {"key": mark, "value": {"|": [mark, state]}}}
    kept = {"&": [mark, _OTHER_BITS | state]}
    return {"mangle": {"key": mark, "value": {"|": [kept, state]}}}


def clear_state() -> Statement:
    """Remove the state from a packet's mark."""
    mark = meta("mark")
    return {"mangle": {"key": mark, "value": {"&": [mark, _OTHER_BITS]}}}


def address(family: int, field: str) -> Expression:
    """Return the source (saddr) or destination (daddr) of a packet."""
    return payload(_PROTOCOLS[family], field)


def within(prefix: IpNetwork, field: str) -> list[Statement]:
    """Match an address in *prefix*; every packet of the family if it has all addresses."""
    if not prefix.prefixlen:
        return [match(meta("protocol"), _PROTOCOLS[prefix.version])]
    return [match(address(prefix.version, field), prefix_value(prefix))]


def prefix_value(prefix: IpNetwork) -> object:
    """Return a prefix as the right side of a match."""
    text = address_text(prefix.network_address)
    if prefix.prefixlen == prefix.max_prefixlen:
        return text
    return {"prefix": {"addr": text, "len": prefix.prefixlen}}


def address_text(value: IpAddress) -> str:
    """Spell an address as the C library does: an IPv4 address inside it has dots."""
    if isinstance(value, IPv6Address):
        number = int(value)
        tail = IPv4Address(number & 0xFFFFFFFF)
        if number >> 32 == 0xFFFF:
            return f"::ffff:{tail}"
        if number >> 32 == 0 and number >> 16:
            return f"::{tail}"
    return str(value)


def mac_is(mac: str) -> Statement:
    """Match the source MAC address of a frame."""
    return match(payload("ether", "saddr"), str(mac))


def udp(source: int, destination: int) -> list[Statement]:
    return [
        match(payload("udp", "sport"), source),
        match(payload("udp", "dport"), destination),
    ]
