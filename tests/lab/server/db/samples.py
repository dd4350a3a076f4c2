"""Resources to store."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from netfw.model import (
    AllocationPool,
    FixedIp,
    Mac,
    Network,
    NetworkId,
    Port,
    PortId,
    RbacAction,
    RbacPolicy,
    RbacPolicyId,
    SecurityGroup,
    SecurityGroupId,
    Subnet,
    SubnetId,
)
from netfw.model.values.address import IpAddress
from netfw.server.db import Database, Transaction


def uid(number: int) -> UUID:
    """Return an id that sorts by its number."""
    return UUID(int=number)


def network(number: int = 1, **other: Any) -> Network:
    return Network(**{"id": NetworkId(uid(number)), "project_id": "p", "name": "net", **other})


def subnet(number: int = 2, of: int = 1, last: str = "10.0.0.254", **other: Any) -> Subnet:
    given = {
        "id": SubnetId(uid(number)),
        "project_id": "p",
        "network_id": NetworkId(uid(of)),
        "cidr": "10.0.0.0/16",
        "gateway": "10.0.0.1",
        "allocation_pools": (AllocationPool(start="10.0.0.2", end=last),),
        **other,
    }
    return Subnet(**given)


def group(number: int = 3, **other: Any) -> SecurityGroup:
    given = {"id": SecurityGroupId(uid(number)), "project_id": "p", "name": "default", **other}
    return SecurityGroup(**given)


def policy(number: int, of: int, target: str = "p", **other: Any) -> RbacPolicy:
    given = {
        "id": RbacPolicyId(uid(number)),
        "project_id": "q",
        "object_type": "network",
        "object_id": uid(of),
        "action": RbacAction.SHARED,
        "target_project": target,
        **other,
    }
    return RbacPolicy(**given)


def mac(number: int) -> Mac:
    return Mac(":".join(f"{byte:02x}" for byte in (0xFA000000 << 16 | number).to_bytes(6)))


def port(number: int, *addresses: str | IpAddress, **other: Any) -> Port:
    given = {
        "id": PortId(uid(number)),
        "project_id": "p",
        "network_id": NetworkId(uid(1)),
        "mac": mac(number),
        "fixed_ips": tuple(FixedIp(subnet_id=SubnetId(uid(2)), address=a) for a in addresses),
        **other,
    }
    return Port(**given)


def store(database: Database, *resources: Any) -> None:
    """Store *resources* in order, each with the pools that it needs."""

    def work(transaction: Transaction) -> None:
        for each in resources:
            transaction.resources.insert(each)
            if isinstance(each, Subnet):
                transaction.addresses.define(each)

    database.transaction(work)


def random_port(address: IpAddress) -> Port:
    """Return a port with a fresh id and MAC address."""
    id = uuid4()
    return port(0, address, id=PortId(id), mac=mac(id.int & 0xFFFFFFFF))
