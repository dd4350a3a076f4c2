"""Metering labels and their rules."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.server.query import RequestContext
from netfw.server.db import Database
from netfw.server.db.database import ReadSnapshot, Transaction
from netfw.server.db.resources.vendor_resources import VendorResources
from netfw.server.metering.labels import LABEL, RULE, MeteringPlugin
from tests.server.api.environment import Client, Reply, api
from tests.server.core.core_client import core_plugin, statements

pytestmark = pytest.mark.spec("API-07")
LABELS, RULES = "metering/metering-labels", "metering/metering-label-rules"


@pytest.fixture
def admin(database: Database) -> Client:
    core = core_plugin(database)
    return api([core, MeteringPlugin(core.context)]).as_("root/admin")


def refused(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.error["type"]


def label(client: Client, **attributes: Any) -> dict[str, Any]:
    reply = client.post(LABELS, {"metering_label": {"name": "all", **attributes}})
    assert reply.status == 201, reply.data
    made: dict[str, Any] = reply.json["metering_label"]
    return made


def add_rule(client: Client, label: str, **attributes: Any) -> Reply:
    body = {"metering_label_id": label, "direction": "ingress", **attributes}
    return client.post(RULES, {"metering_label_rule": body})


def rules(client: Client, **filters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(RULES, **filters).json["metering_label_rules"]
    return found


def test_a_label_says_that_nothing_is_counted(admin: Client) -> None:
    made = label(admin, description="d")
    shown = admin.get(f"{LABELS}/{made['id']}").json["metering_label"]
    (listed,) = admin.get(LABELS, name="all").json["metering_labels"]
    assert made == shown == listed
    assert (made["status"], made["shared"], made["project_id"]) == ("DOWN", False, "root")
    assert "no agent" in made["status_reason"]


def test_an_updated_label_says_so_too(database: Database) -> None:
    core = core_plugin(database)
    plugin = MeteringPlugin(core.context)
    made = label(api([core, plugin]).as_("root/admin"))
    requester = RequestContext(project_id="root", admin=True)
    after = plugin.update(requester, LABEL, made["id"], {"name": "most"})
    assert (after["name"], after["status"]) == ("most", "DOWN")
    assert after == plugin.show(requester, LABEL, made["id"])


def test_rules_belong_to_a_label_and_are_deleted_with_it(admin: Client) -> None:
    made, other = label(admin)["id"], label(admin)["id"]
    rule = add_rule(admin, made, remote_ip_prefix="10.0.0.7/24").json["metering_label_rule"]
    assert rule["remote_ip_prefix"] == "10.0.0.0/24"
    assert (rule["excluded"], rule["source_ip_prefix"]) == (False, None)
    assert add_rule(admin, other, source_ip_prefix="fd00::/64").status == 201
    assert [each["id"] for each in rules(admin, metering_label_id=made)] == [rule["id"]]
    assert admin.delete(f"{LABELS}/{made}").status == 204
    assert refused(admin.get(f"{RULES}/{rule['id']}")) == (404, "MeteringLabelRuleNotFound")
    (left,) = rules(admin)
    assert admin.delete(f"{RULES}/{left['id']}").status == 204
    assert refused(add_rule(admin, made, source_ip_prefix="10.0.0.0/8")) == (
        404,
        "MeteringLabelNotFound",
    )


def test_remote_prefixes_of_a_label_do_not_overlap(admin: Client) -> None:
    made = label(admin)["id"]
    assert add_rule(admin, made, remote_ip_prefix="10.0.0.0/24").status == 201
    overlaps = (409, "MeteringLabelRuleOverlaps")
    assert refused(add_rule(admin, made, remote_ip_prefix="10.0.0.128/25")) == overlaps
    for other in (
        {"direction": "egress"},
        {"excluded": True},
        {"remote_ip_prefix": "10.0.1.0/24"},
        {"remote_ip_prefix": "::/0"},
    ):
        reply = add_rule(admin, made, **{"remote_ip_prefix": "10.0.0.0/25", **other})
        assert reply.status == 201


def test_rules_of_one_request_are_compared_with_each_other_and_with_those_there(
    admin: Client,
) -> None:
    made = label(admin)["id"]
    common = {"metering_label_id": made, "direction": "ingress"}

    def add_all(*prefixes: str) -> Reply:
        new = [{**common, "remote_ip_prefix": each} for each in prefixes]
        return admin.post(RULES, {"metering_label_rules": new})

    overlaps = (409, "MeteringLabelRuleOverlaps")
    assert add_all("10.0.2.0/24", "10.0.0.0/24", "10.0.1.0/24", "fd00::/64").status == 201
    for wrong in (
        ["10.0.4.0/24", "10.0.4.128/25"],
        ["10.0.4.128/25", "10.0.4.0/24"],
        ["10.0.4.0/24", "10.0.2.7/32"],
        ["10.0.0.0/8"],
        ["10.0.1.0/24"],
        ["fd00::/48"],
    ):
        assert refused(add_all(*wrong)) == overlaps, wrong
    assert len(rules(admin)) == 4


def test_a_request_reads_the_rules_of_a_label_once_however_many_it_adds(
    admin: Client, database: Database
) -> None:
    counts = []
    for number in (2, 20):
        common = {"metering_label_id": label(admin)["id"], "direction": "ingress"}
        new = [{**common, "source_ip_prefix": f"10.0.{at}.0/24"} for at in range(number)]
        with statements(database) as seen:
            assert admin.post(RULES, {"metering_label_rules": new}).status == 201
            counts.append(len(seen))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "prefixes",
    [
        {},
        {"remote_ip_prefix": "10.0.0.0/8", "source_ip_prefix": "10.0.0.0/8"},
        {"destination_ip_prefix": "10.0.0.0/8", "source_ip_prefix": "fd00::/8"},
        {"remote_ip_prefix": "all"},
        {"source_ip_prefix": "10.0.0.0/8", "direction": "both"},
    ],
)
def test_rules_that_match_nothing_definite_are_refused(
    admin: Client, prefixes: dict[str, str]
) -> None:
    assert refused(add_rule(admin, label(admin)["id"], **prefixes)) == (400, "InvalidInput")


def test_overlapping_rules_that_are_stored_refuse_no_other_rule(
    admin: Client, database: Database
) -> None:
    own = label(admin)["id"]
    for prefix in ("10.0.0.0/8", "11.0.0.0/8"):
        assert add_rule(admin, own, remote_ip_prefix=prefix).status == 201

    def overlap(tx: Transaction) -> None:
        stored = VendorResources(tx.connection, RULE)
        (one,) = (each for each in stored.find({}) if each["remote_ip_prefix"] == "11.0.0.0/8")
        stored.update(one, {**one, "remote_ip_prefix": "10.1.0.0/16"})

    database.transaction(overlap)
    assert add_rule(admin, own, remote_ip_prefix="12.0.0.0/8").status == 201
    for prefix in ("10.1.2.0/24", "10.2.0.0/16"):
        refusal = add_rule(admin, own, remote_ip_prefix=prefix)
        assert refused(refusal) == (409, "MeteringLabelRuleOverlaps")
    assert "10.0.0.0/8" in refusal.error["message"]


def test_projects_see_their_labels_and_shared_ones(admin: Client) -> None:
    own = label(admin, project_id="alice", name="own")["id"]
    shared = label(admin, shared=True, name="shared")["id"]
    hidden = label(admin, name="hidden")["id"]
    for each in (own, shared, hidden):
        assert add_rule(admin, each, source_ip_prefix="10.0.0.0/8").status == 201
    alice = admin.as_("alice/member")
    seen = alice.get(LABELS).json["metering_labels"]
    assert {each["name"] for each in seen} == {"own", "shared"}
    assert {each["metering_label_id"] for each in rules(alice)} == {own, shared}
    assert alice.get(f"{LABELS}/{shared}").status == 200
    assert alice.get(f"{LABELS}/{hidden}").status == 404
    assert alice.delete(f"{LABELS}/{shared}").status == 403
    assert alice.post(LABELS, {"metering_label": {}}).status == 403


def test_managers_have_labels_in_their_project_only(admin: Client) -> None:
    alice = admin.as_("alice/manager")
    own, shared = label(alice)["id"], label(admin, shared=True)["id"]
    assert add_rule(alice, own, source_ip_prefix="10.0.0.0/8").status == 201
    foreign = add_rule(alice, shared, source_ip_prefix="10.0.0.0/8")
    assert refused(foreign) == (404, "MeteringLabelNotFound")
    assert alice.delete(f"{LABELS}/{shared}").status == 403
    assert alice.post(LABELS, {"metering_label": {"shared": True}}).status == 403
    assert alice.delete(f"{LABELS}/{own}").status == 204


def test_labels_of_other_projects_are_not_read(admin: Client, database: Database) -> None:
    label(admin, name="hidden")
    own, shared = label(admin, project_id="alice")["id"], label(admin, shared=True)["id"]

    def read(view: ReadSnapshot) -> set[str]:
        found = VendorResources(view.connection, LABEL).find({}, project="alice", or_shared=True)
        return {each["id"] for each in found}

    assert database.read(read) == {own, shared}
