"""Changes of pools that change the subnets of networks: onboarding, and other address scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import evolve

from netfw.drivers.server.query import Query
from netfw.errors.subnet_pools import IllegalSubnetPoolUpdate, NetworkAddressScopeAffinityError
from netfw.model.resource import Kind
from netfw.model.subnet import Subnet
from netfw.model.subnet_pool import SubnetPool
from netfw.model.values.ids import NetworkId
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.subnet_pools.subnet_allocation import release_prefix, with_scopes


def onboard_subnets(
    unit: UnitOfWork, pool: SubnetPool, network: NetworkId, subnets: Sequence[Subnet]
) -> None:
    """Make the prefixes of existing *subnets* allocations of *pool*, which contains them.

    The network and the pool are locked.

    :raises IllegalSubnetPoolUpdate: other subnets of the pool have such addresses, or a provider
        delegates the prefix.
    """
    for subnet in subnets:
        if subnet.delegated:
            text = f"a provider delegates the prefix of subnet {subnet.id}"
            raise IllegalSubnetPoolUpdate({"network_id": text})
        if subnet.subnet_pool_id == pool.id or not unit.tx.prefixes.acquire(pool.id, subnet.cidr):
            text = f"{subnet.cidr} of subnet {subnet.id} is not free in subnet pool {pool.id}"
            raise IllegalSubnetPoolUpdate({"network_id": text})
        release_prefix(unit, subnet)
        row = unit.tx.resources.get(Kind.SUBNET, subnet.id, lock=True)
        unit.extras[row.ref] = dict(row.extra)
        unit.update(subnet, evolve(subnet, subnet_pool_id=pool.id))
    if subnets:
        stored = unit.network(network)
        unit.update(stored, with_scopes(unit, stored, unit.subnets(network)))


def rescope_networks(unit: UnitOfWork, pool: SubnetPool) -> None:
    """Give the networks with subnets of *pool* its address scope.

    :raises NetworkAddressScopeAffinityError: such a network has subnets of other pools.
    """
    query = Query(filters={"subnetpool_id": (str(pool.id),)})
    rows = unit.tx.resources.find(Kind.SUBNET, query)
    networks = {cast(Subnet, row.resource()).network_id for row in rows}
    name = f"ipv{pool.ip_version}_address_scope"
    for id in sorted(networks):
        network = unit.network(id, lock=True)
        for each in unit.subnets(id):  # read after the lock: others may have added some
            if each.ip_version == pool.ip_version and each.subnet_pool_id != pool.id:
                text = f"subnet {each.id} of network {id} is not of this pool"
                raise NetworkAddressScopeAffinityError({"address_scope_id": text})
        unit.update(network, unit.evolved(network, **{name: pool.address_scope_id}))
