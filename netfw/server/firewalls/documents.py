"""Documents of firewalls, and what they refer to.

A rule names its policies, and a policy its groups, so that a change finds what depends on it by id.
Whatever stores rules with routers locks the policies that have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from netfw.drivers.server.query import RequestContext
from netfw.errors import InvalidInput
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.vendor_resources import VendorResources

RULE: Final = "firewall_rule"
POLICY: Final = "firewall_policy"
GROUP: Final = "firewall_group"
POLICIES_OF_RULE: Final = "firewall_policy_id"
GROUPS_OF_POLICY: Final = "group_ids"
"""An attribute that the API does not show."""
RULES_OF_POLICY: Final = "firewall_rules"
DIRECTIONS: Final = ("ingress_firewall_policy_id", "egress_firewall_policy_id")
MAX_USERS: Final = 64
"""Policies that one rule can be in, and groups that one policy can be in: one transaction changes
the routers of all of them."""


def stored(unit: UnitOfWork, name: str) -> VendorResources:
    """Return the documents of resource *name*, of all projects."""
    return VendorResources(unit.tx.connection, name)


def find_all(unit: UnitOfWork, name: str, ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the documents with one of *ids* that exist, by id."""
    wanted = sorted(set(ids))
    if not wanted:
        return {}
    return {each["id"]: each for each in stored(unit, name).find({"id": wanted})}


def rewrite(unit: UnitOfWork, name: str, before: Mapping[str, Any], **changes: Any) -> None:
    """Store *changes* of a document that another one caused."""
    after = {**before, **changes, "revision_number": before["revision_number"] + 1}
    stored(unit, name).update(before, after)


def link(unit: UnitOfWork, name: str, user: object, *, gained: set[str], lost: set[str]) -> None:
    """Add *user* to the users of documents that gained it, and take it from those that lost it.

    :raises InvalidInput: one would have too many.
    """
    attribute = POLICIES_OF_RULE if name == RULE else GROUPS_OF_POLICY
    for id, each in find_all(unit, name, gained | lost).items():
        users = [other for other in each[attribute] if other != user]
        users += [user] if id in gained else []
        if len(users) > MAX_USERS:
            raise InvalidInput({"id": f"{name} {id} is used {MAX_USERS} times; copy it"})
        rewrite(unit, name, each, **{attribute: users})


def is_visible(requester: RequestContext, body: Mapping[str, Any]) -> bool:
    """Return whether *requester* sees a document: it is of its project, or shared."""
    return bool(body["shared"]) or requester.sees in (None, body["project_id"])


def is_own(body: Mapping[str, Any], used: Mapping[str, Any]) -> bool:
    """Return whether *body* may use *used*: it is of the same project, or shared."""
    return bool(used["shared"]) or used["project_id"] == body["project_id"]
