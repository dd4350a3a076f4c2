"""Tunnel addresses that several hosts advertise at the same moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from netfw.errors import InvalidInput
from netfw.server.agents.heartbeat_handler import HeartbeatHandler
from netfw.server.db import Database
from tests.lab.databases import BACKEND_PARAMETERS, DatabaseServers
from tests.server.core.agent_samples import beat
from tests.server.core.core_client import core_plugin

HOSTS = ("a", "b", "c", "d")
ADDRESSES = tuple(f"192.0.2.{number}" for number in range(1, 6))


@pytest.mark.spec("RPC-06")
@pytest.mark.parametrize("backend", BACKEND_PARAMETERS)
def test_one_of_several_hosts_gets_a_tunnel_address(
    database_servers: DatabaseServers, backend: str
) -> None:
    with closing(Database(database_servers.filled(backend))) as database:
        handle = HeartbeatHandler(core_plugin(database).context)

        def advertise(host: str, address: str) -> bool:
            try:
                handle([beat(host, start=True, tunneling_ip=address)])
            except InvalidInput:
                return False
            return True

        with ThreadPoolExecutor(len(HOSTS)) as pool:
            for number, address in enumerate(ADDRESSES):
                hosts = [f"{host}{number}" for host in HOSTS]
                got = list(pool.map(advertise, hosts, [address] * len(hosts)))
                assert sum(got) == 1
                again = [advertise(host, address) for host in hosts]
                assert again == got
