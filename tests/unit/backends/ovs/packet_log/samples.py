"""Frames, ports, rules and logs for the tests of the packet log."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from struct import pack
from typing import Any
from uuid import UUID

from netfw.drivers.l2_extension import ExtendedPort
from netfw.drivers.values.pipeline_grant import Grant, GrantRequest
from netfw.drivers.values.switch_values import SwitchDevice
from netfw.model.network import Network
from netfw.model.packet_log import LogEvent, PacketLog
from netfw.model.port import Port
from netfw.model.resource import Resource
from netfw.model.security_group import Direction, SecurityGroup, SecurityGroupRule
from netfw.model.values.ids import (
    NetworkId,
    PacketLogId,
    PortId,
    SecurityGroupId,
    SecurityGroupRuleId,
)
from netfw_drivers.ovs.packet_log.plan.flows import TABLES
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout

GROUP, OTHER = SecurityGroupId(UUID(int=1)), SecurityGroupId(UUID(int=2))
OFPORT = 5
PORT = Port(
    id=PortId(UUID(int=11)),
    project_id="alice",
    network_id=NetworkId(UUID(int=3)),
    mac="fa:16:3e:00:00:01",
    security_groups=(GROUP,),
)
MACS = bytes.fromhex("fa163e000001"), bytes.fromhex("fa163e000002")


def rule(number: int = 21, direction: Direction = Direction.INGRESS, **more: Any) -> Any:
    return SecurityGroupRule(
        id=SecurityGroupRuleId(UUID(int=number)),
        security_group_id=GROUP,
        direction=direction,
        **more,
    )


def log(number: int = 31, event: LogEvent = LogEvent.ALL, **more: Any) -> PacketLog:
    return PacketLog(id=PacketLogId(UUID(int=number)), project_id="alice", event=event, **more)


def view(*related: Resource, ofport: int | None = OFPORT) -> ExtendedPort:
    return ExtendedPort(
        port=PORT,
        network=Network(id=PORT.network_id),
        device=SwitchDevice(name="tap11", ofport=ofport),
        related=(SecurityGroup(id=GROUP), *related),
    )


def layout() -> tuple[ExtensionLayout, Grant]:
    granted = ExtensionLayout().granted(GrantRequest(owner="packet_log", tables=TABLES, meters=1))
    return granted, granted.grants["packet_log"]


def ethernet(kind: int, payload: bytes) -> bytes:
    return MACS[0] + MACS[1] + pack("!H", kind) + payload


def ipv4(protocol: int, upper: bytes, *, src: str = "10.0.0.9", fragment: int = 0) -> bytes:
    addresses = IPv4Address(src).packed + IPv4Address("10.0.0.1").packed
    head = pack("!BBHHHBBH", 0x45, 0, 20 + len(upper), 1, fragment, 64, protocol, 0)
    return ethernet(0x0800, head + addresses + upper)


def ipv6(following: int, upper: bytes, *, src: str = "fd00::9") -> bytes:
    addresses = IPv6Address(src).packed + IPv6Address("fd00::1").packed
    return ethernet(0x86DD, pack("!IHBB", 6 << 28, len(upper), following, 64) + addresses + upper)


def tcp(port: int, source: int = 4000) -> bytes:
    return pack("!HHIIHHHH", source, port, 0, 0, 0x5002, 100, 0, 0)


ARP = ethernet(
    0x0806,
    pack("!HHBBH", 1, 0x0800, 6, 4, 1) + MACS[1] + IPv4Address("10.0.0.9").packed + bytes(6)
    + IPv4Address("10.0.0.1").packed,
)  # fmt: skip
