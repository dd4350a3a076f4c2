"""Network segment ranges: which numbers networks get, and which changes are refused."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.query import Query
from netfw.drivers.server.type_driver import Pool, Range
from netfw.errors.networks import NoNetworkAvailable
from netfw.errors.segment_ranges import (
    NetworkSegmentRangeOverlaps,
    NetworkSegmentRangeReferencedByProject,
)
from netfw.model.segment import NetworkType
from netfw.server.db import Database
from netfw.server.db.allocation.segment_usage import MAX_SHOWN
from netfw.server.segment_ranges.range_source import without
from tests.server.api.environment import Client, Reply, api
from tests.server.core.core_client import ADMIN, statements
from tests.server.segment_ranges.environment import RANGE, SegmentRanges, type_drivers

pytestmark = pytest.mark.spec("API-07")
PATH = "network-segment-ranges"


@pytest.fixture
def core(database: Database) -> SegmentRanges:
    return SegmentRanges(database)


@pytest.fixture
def admin(core: SegmentRanges) -> Client:
    return api(core.plugins).as_("root/admin")


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def body(**other: Any) -> dict[str, Any]:
    return {RANGE: {"network_type": "vxlan", "minimum": 20, "maximum": 29, **other}}


def test_a_project_uses_its_own_ranges_first_then_shared_ones(core: SegmentRanges) -> None:
    core.make(3, 4, "alice")
    core.make(20, 21, "alice")
    core.make(30, 31)
    assert core.numbers("bob", 2) == [1, 2]
    assert core.numbers("alice", 5) == [3, 4, 20, 21, 5]
    assert core.numbers("bob", 5) == [6, 7, 8, 9, 10]
    assert core.numbers("bob", 2) == [30, 31]
    for project in ("alice", "bob"):
        with pytest.raises(NoNetworkAvailable):
            core.network(project)


def test_an_id_in_upper_case_names_the_same_range(admin: Client) -> None:
    made = admin.post(PATH, body(shared=True)).json[RANGE]
    path = f"{PATH}/{made['id'].upper()}"
    assert admin.put(path, {RANGE: {"maximum": 25}}).json[RANGE]["maximum"] == 25
    assert admin.put(path, {RANGE: {"name": "east"}}).json[RANGE]["name"] == "east"


def test_a_range_gives_numbers_to_a_type_without_configured_ones(database: Database) -> None:
    core = SegmentRanges(database, "gre")
    with pytest.raises(NoNetworkAvailable):
        core.network()
    core.make(5, 5, "alice", network_type="gre")
    core.make(7, 7, network_type="gre")
    assert core.numbers("alice", 2) == [5, 7]


def test_own_ranges_come_first_on_any_physical_network(database: Database) -> None:
    core = SegmentRanges(database, "vlan")
    core.make(200, 200, "alice", network_type="vlan", physical_network="physnet2")
    core.make(105, 105, "alice", network_type="vlan", physical_network="physnet1")
    assert core.numbers("alice", 3) == [105, 200, 100]
    (found,) = core.numbers("alice", 1, provider__network_type="vlan")
    assert found == 101


def test_a_requested_type_uses_own_ranges_first(core: SegmentRanges) -> None:
    core.make(8, 8, "alice")
    assert core.numbers("alice", 2, provider__network_type="vxlan") == [8, 1]
    wanted = {"provider__network_type": "vxlan", "provider__segmentation_id": 5}
    assert core.numbers("alice", 1, **wanted) == [5]


def test_released_numbers_return_to_their_range(core: SegmentRanges) -> None:
    core.make(3, 4, "alice")
    made = [core.network("alice") for _ in range(3)]
    for each in made:
        core.drop_network(each["id"])
    assert core.numbers("bob", 3) == [1, 2, 5]
    assert core.numbers("alice", 2) == [3, 4]


def test_default_ranges_follow_the_configuration(database: Database) -> None:
    def found(core: SegmentRanges) -> dict[tuple[Any, ...], str]:
        client = api(core.plugins).as_("root/admin")
        listed = client.get(PATH, default="true").json["network_segment_ranges"]
        assert all(each["shared"] and each["project_id"] is None for each in listed)
        names = ("network_type", "physical_network", "minimum", "maximum")
        return {tuple(each[name] for name in names): each["id"] for each in listed}

    first = found(SegmentRanges(database))
    assert first.keys() == {("vxlan", "", 1, 10), ("vlan", "physnet1", 100, 109)}
    assert found(SegmentRanges(database)) == first
    core = SegmentRanges(database, drivers=type_drivers((5, 9)))
    core.make(6, 8, "alice")
    again = SegmentRanges(database, drivers=type_drivers((5, 9)))
    assert found(again).keys() == {("vxlan", "", 5, 9), ("vlan", "physnet1", 100, 109)}
    assert again.numbers("bob", 2) == [5, 9]


def test_default_ranges_are_read_only(admin: Client) -> None:
    (default,) = admin.get(PATH, network_type="vxlan").json["network_segment_ranges"]
    path = f"{PATH}/{default['id']}"
    read_only = (400, "NetworkSegmentRangeDefaultReadOnly")
    assert refused(admin.put(path, {RANGE: {"name": "mine"}})) == read_only
    assert refused(admin.delete(path)) == read_only
    assert admin.put(f"{path}/tags/x", None).status in (200, 201)
    assert admin.get(path).json[RANGE]["tags"] == ["x"]


def test_ranges_say_what_is_used_and_free(core: SegmentRanges, admin: Client) -> None:
    made = core.make(8, 12, "alice")["id"]
    assert core.numbers("alice", 1) == [8]
    core.network("bob", provider__network_type="vxlan", provider__segmentation_id=11)
    for path in (f"{PATH}/{made}", f"network_segment_ranges/{made}"):
        shown = admin.get(path).json[RANGE]
        assert shown["used"] == {"8": "alice", "11": "bob"}
        assert shown["available"] == [9, 10, 12]
        assert (shown["default"], shown["shared"], shown["project_id"]) == (False, False, "alice")


def test_lists_of_free_numbers_have_a_bound(core: SegmentRanges) -> None:
    made = core.make(1001, 2**24 - 1)
    assert made["available"] == list(range(1001, 1001 + MAX_SHOWN))


def test_a_list_takes_as_many_statements_as_one_range(
    core: SegmentRanges, database: Database
) -> None:
    def cost() -> int:
        with statements(database) as seen:
            assert core.ranges.find(ADMIN, RANGE, Query())
        return len(seen)

    before = cost()
    for at in range(20):
        core.make(1000 + 10 * at, 1005 + 10 * at, f"project{at % 3}")
    assert cost() == before


def test_overlaps_with_ranges_other_than_default_ones_are_refused(core: SegmentRanges) -> None:
    made = core.make(8, 12)["id"]
    other = core.make(20, 29, "alice")["id"]
    core.make(8, 12, network_type="gre")
    for first, last in ((1, 8), (12, 19), (9, 10), (1, 100)):
        with pytest.raises(NetworkSegmentRangeOverlaps):
            core.make(first, last, "bob")
    with pytest.raises(NetworkSegmentRangeOverlaps):
        core.change(made, maximum=20)
    changed = core.change(other, minimum=13, name="more")
    assert (changed["minimum"], changed["name"], changed["revision_number"]) == (13, "more", 2)


def test_numbers_in_use_stay_in_their_range(core: SegmentRanges) -> None:
    made = core.make(20, 29, "alice")["id"]
    networks = [core.network("alice") for _ in range(2)]
    for new in ({"minimum": 21}, {"maximum": 20}):
        with pytest.raises(NetworkSegmentRangeReferencedByProject):
            core.change(made, **new)
    with pytest.raises(NetworkSegmentRangeReferencedByProject):
        core.delete(made)
    core.change(made, maximum=21)
    assert core.numbers("alice", 1) == [1]
    core.drop_network(networks[0]["id"])
    core.change(made, minimum=21)
    core.drop_network(networks[1]["id"])
    core.delete(made)
    assert core.numbers("alice", 1) == [2]


def test_numbers_of_a_deleted_range_are_for_all_again(core: SegmentRanges) -> None:
    made = core.make(1, 9, "alice")["id"]
    assert core.numbers("bob", 1) == [10]
    core.delete(made)
    assert core.numbers("bob", 1) == [1]


def test_ranges_that_no_segment_could_come_from_are_refused(admin: Client) -> None:
    def create(**other: Any) -> tuple[int, str]:
        return refused(admin.post(PATH, body(**other)))

    invalid = (400, "InvalidInput")
    assert create(minimum=30) == invalid
    assert create(maximum=2**24) == invalid
    assert create(network_type="flat") == invalid
    assert create(physical_network="physnet1") == invalid
    assert create(network_type="vlan") == invalid
    assert create(network_type="vlan", physical_network="nowhere") == invalid
    unsupported = (400, "NetworkSegmentRangeNetTypeNotSupported")
    assert create(network_type="geneve") == unsupported
    assert refused(admin.get(f"{PATH}/nothing")) == (404, "NetworkSegmentRangeNotFound")


def test_ranges_are_for_administrators(admin: Client) -> None:
    alice = admin.as_("alice/member")
    assert alice.post(PATH, body()).status == 403
    assert alice.get(PATH).json["network_segment_ranges"] == []
    made = admin.post(PATH, body()).json[RANGE]
    assert (made["shared"], made["project_id"]) == (True, None)
    own = admin.post(PATH, body(minimum=40, maximum=49, shared=False)).json[RANGE]
    assert (own["shared"], own["project_id"]) == (False, "root")
    assert admin.delete(f"{PATH}/{made['id']}").status == 204


def test_without_removes_numbers_of_the_same_pool_only() -> None:
    vxlan, gre = Pool(NetworkType.VXLAN), Pool(NetworkType.GRE)
    cut = without([Range(vxlan, 1, 9), Range(gre, 1, 9)], [Range(vxlan, 3, 4), Range(vxlan, 9, 20)])
    assert cut == [Range(vxlan, 1, 2), Range(vxlan, 5, 8), Range(gre, 1, 9)]
