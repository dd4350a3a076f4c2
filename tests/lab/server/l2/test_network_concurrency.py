"""Several servers on one database: no segment twice, no overlap, nothing half deleted."""

from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest

from netfw.drivers.server.query import Query
from netfw.errors import NotFound
from netfw.model.resource import Kind
from netfw.server.db import Database
from tests.lab.server.db.processes import at_once
from tests.lab.server.l2.network_processes import (
    come_and_go,
    make_networks,
    make_these_networks,
    make_these_subnets,
)
from tests.server.core.core_client import ALICE, Calls, core_plugin

WORKERS = 3


@pytest.mark.spec("ML2-01", "ML2-11", "ML2-16")
def test_networks_that_several_servers_make_and_delete_have_segments_of_their_own(
    url: str, database: Database
) -> None:
    parts = at_once(WORKERS, make_networks, url)
    kept = [tuple(each) for part in parts for each in part]
    assert len(kept) == len(set(kept))
    calls = Calls(core_plugin(database, "vlan", "gre"))
    left = 5 - len(kept)
    for _ in range(left):
        made = calls.network()
        kept.append((made["provider:network_type"], made["provider:segmentation_id"]))
    assert sorted(kept) == [("gre", 1), ("gre", 2), ("vlan", 100), ("vlan", 101), ("vlan", 102)]
    stored = calls.all("segment")
    assert sorted((each["network_type"], each["segmentation_id"]) for each in stored) == sorted(
        kept
    )


@pytest.mark.spec("ML2-01", "ML2-11")
def test_a_segment_that_several_servers_want_goes_to_one(url: str, database: Database) -> None:
    wanted = list(range(3000, 3008))
    parts = at_once(WORKERS, make_these_networks, url, wanted)
    assert sorted(number for part in parts for number in part) == wanted
    count = database.read(lambda view: view.resources.count(Kind.SEGMENT, Query()))
    assert count == len(wanted)


@pytest.mark.spec("ML2-09", "ML2-11")
def test_subnets_that_several_servers_make_in_one_network_do_not_overlap(
    url: str, database: Database
) -> None:
    calls = Calls(core_plugin(database))
    network = calls.network()
    blocks = ["10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24", "10.0.0.0/23"]
    at_once(WORKERS, make_these_subnets, url, network["id"], blocks)
    made = [ipaddress.ip_network(each["cidr"]) for each in calls.all("subnet")]
    assert made
    for one, other in combinations(made, 2):
        assert not one.overlaps(other), (one, other)


@pytest.mark.spec("ML2-11")
def test_a_network_goes_whole_or_not_at_all_while_others_use_it(
    url: str, database: Database
) -> None:
    calls = Calls(core_plugin(database))
    network = calls.network()
    calls.subnet(network, "10.0.0.0/24")
    at_once(WORKERS, come_and_go, url, network["id"])
    assert calls.all("port") == []
    try:
        calls.show("network", network["id"])
    except NotFound:
        assert calls.all("subnet") == []
        assert calls.all("segment") == []
    else:
        left = [each["id"] for each in calls.all("subnet")]
        assert calls.show("network", network["id"])["subnets"] == sorted(left)
        assert len(calls.all("segment")) == 1
        calls.delete("network", network["id"])
    used = database.read(lambda view: view.quotas.of_project(ALICE.project_id))
    assert {name: used[name].used for name in ("network", "subnet", "port")} == {
        "network": 0,
        "subnet": 0,
        "port": 0,
    }
