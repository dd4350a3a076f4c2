"""Documents of firewalls, and what they refer to.

A rule names its policies, and a policy its groups, so that a change finds what depends on it by id.
Whatever stores rules with routers locks the policies that have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
"""Policies of one project that a rule can be in, and groups of one that a policy can be in."""
MAX_ALL_USERS: Final = 4 * MAX_USERS
"""Those of all projects: one transaction changes the routers of all of them."""


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


def update_users(
    unit: UnitOfWork, name: str, user: object, *, gained: set[str], lost: set[str]
) -> None:
    """Add *user* to the users of documents that gained it, and take it from those that lost it.

    :raises InvalidInput: one would have too many.
    """
    attribute, kind = (POLICIES_OF_RULE, POLICY) if name == RULE else (GROUPS_OF_POLICY, GROUP)
    for id, each in find_all(unit, name, gained | lost).items():
        users = [other for other in each[attribute] if other != user]
        if id in gained:
            users.append(user)
            if len(users) > MAX_USERS and (problem := _users_problem(unit, kind, users)):
                raise InvalidInput({"id": f"{name} {id} {problem}; copy it"})
        rewrite(unit, name, each, **{attribute: users})


def _users_problem(unit: UnitOfWork, kind: str, users: Sequence[Any]) -> str | None:
    """Return what is wrong with *users*, the last of which is new."""
    found = find_all(unit, kind, users)
    project = found[users[-1]]["project_id"]
    own = sum(each["project_id"] == project for each in found.values())
    if own > MAX_USERS:
        return f"is used {MAX_USERS} times by project {project}"
    return f"is used {MAX_ALL_USERS} times" if len(found) > MAX_ALL_USERS else None


def is_visible(requester: RequestContext, body: Mapping[str, Any]) -> bool:
    """Return whether *requester* sees a document: it is of its project, or shared."""
    return bool(body["shared"]) or requester.sees in (None, body["project_id"])


def is_own(body: Mapping[str, Any], used: Mapping[str, Any]) -> bool:
    """Return whether *body* may use *used*: it is of the same project, or shared."""
    return bool(used["shared"]) or used["project_id"] == body["project_id"]
