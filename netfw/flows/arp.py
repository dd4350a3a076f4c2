"""Answers to ARP requests, made by the switch."""

from __future__ import annotations

from ipaddress import IPv4Address

from netfw.flows.action import Load, Move, Output, SetField, back, load, move, set_field
from netfw.flows.field import FIELD
from netfw.flows.match_builders import mac_number
from netfw.model.values.address import Mac

__all__ = ["arp_reply"]

_REPLY = 2


def arp_reply(mac: Mac, address: IPv4Address) -> tuple[Load | Move | SetField | Output, ...]:
    """Make an ARP request the reply that *address* is at *mac*, and send it back."""
    return (
        move(FIELD["eth_src"], FIELD["eth_dst"]),
        set_field("eth_src", mac),
        load(FIELD["arp_op"], _REPLY),
        move(FIELD["arp_sha"], FIELD["arp_tha"]),
        move(FIELD["arp_spa"], FIELD["arp_tpa"]),
        load(FIELD["arp_sha"], mac_number(mac)),
        load(FIELD["arp_spa"], int(address)),
        back(),
    )
