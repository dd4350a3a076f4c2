"""Subnet pools and address scopes with an unchanged openstacksdk and ``openstack`` command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openstack import exceptions

from tests.system.server.environment import RunningServer

pytestmark = [
    pytest.mark.spec("API-07", "API-11"),
    pytest.mark.filterwarnings("ignore::Warning:openstack"),
]

COMMANDS = """
address scope create --ip-version 4 cli-scope
subnet pool create --pool-prefix 10.60.0.0/16 --pool-prefix 10.62.0.0/16 \
--default-prefix-length 24 --min-prefix-length 20 --max-prefix-length 28 --default-quota 4096 \
--address-scope cli-scope --description words --tag red cli-pool
subnet pool set --pool-prefix 10.61.0.0/16 --default-prefix-length 25 cli-pool
network create cli-pool-net
subnet create --network cli-pool-net --subnet-pool cli-pool cli-one
subnet create --network cli-pool-net --subnet-pool cli-pool --prefix-length 28 cli-two
subnet create --network cli-pool-net --subnet-pool cli-pool --subnet-range 10.62.9.0/24 cli-three
subnet list --network cli-pool-net
network show cli-pool-net
network create cli-board-net
subnet create --network cli-board-net --subnet-range 10.63.0.0/16 cli-board
subnet pool add network cli-board-net cli-pool
subnet show cli-board
subnet pool show cli-pool
subnet pool list --name cli-pool
subnet pool unset --tag red cli-pool
network delete cli-pool-net cli-board-net
subnet pool delete cli-pool
address scope set --name cli-other cli-scope
address scope list
address scope delete cli-other
"""


@pytest.fixture
def net(cloud: Any) -> Any:
    """Return the SDK's network service."""
    return cloud.network


def test_pools_and_scopes_of_the_sdk(net: Any) -> None:
    scope = net.create_address_scope(name="sdk-scope", ip_version=4)
    pool = net.create_subnet_pool(
        name="sdk-pool",
        prefixes=["10.50.0.0/16"],
        default_prefix_length=24,
        minimum_prefix_length=20,
        address_scope_id=scope.id,
    )
    assert (pool.ip_version, pool.minimum_prefix_length, pool.maximum_prefix_length) == (4, 20, 32)
    network = net.create_network(name="sdk-pool-net")
    made = [
        net.create_subnet(network_id=network.id, ip_version=4, subnet_pool_id=pool.id, **more)
        for more in ({}, {"prefix_length": 26}, {"cidr": "10.50.9.0/24"})
    ]
    assert [each.cidr for each in made] == ["10.50.0.0/24", "10.50.1.0/26", "10.50.9.0/24"]
    assert net.get_network(network.id).ipv4_address_scope_id == scope.id
    with pytest.raises(exceptions.BadRequestException):
        net.delete_subnet_pool(pool)
    with pytest.raises(exceptions.ConflictException):
        net.delete_address_scope(scope)
    with pytest.raises(exceptions.ConflictException):
        net.create_subnet(network_id=network.id, subnet_pool_id=pool.id, cidr="10.50.0.0/25")
    assert [each.id for each in net.subnet_pools(name="sdk-pool")] == [pool.id]
    changed = net.update_subnet_pool(pool, prefixes=["10.50.0.0/16", "10.51.0.0/16"])
    assert changed.prefixes == ["10.50.0.0/15"]
    other = net.create_network(name="sdk-other-net")
    net.create_subnet(network_id=other.id, ip_version=4, cidr="10.53.0.0/24")
    net.onboard_network_subnets(pool, other)
    assert net.get_subnet_pool(pool.id).prefixes == ["10.50.0.0/15", "10.53.0.0/24"]
    for each in (network, other):
        net.delete_network(each, ignore_missing=False)
    net.delete_subnet_pool(pool, ignore_missing=False)
    net.delete_address_scope(scope, ignore_missing=False)


@pytest.mark.timeout(300)
def test_pools_and_scopes_of_the_command(server: RunningServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("openstack")],
        input=COMMANDS,
        env=server.environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.stderr.strip() == ""
    for text in ("10.62.0.0/25", "10.62.0.128/28", "10.62.9.0/24", "10.60.0.0/14"):
        assert text in done.stdout
