"""A kind that is declared as shareable, with a handler that knows nothing of sharing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from uuid import uuid4

import pytest
from attrs import evolve

from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.errors import NotFound
from netfw.errors.rbac import RbacPolicyInUse
from netfw.model.resource import Kind
from netfw.model.security_group import AddressGroup
from netfw.model.wire import parse
from netfw.server.core.handler_plugin import HandlerPlugin
from netfw.server.core.resource_handler import StoredResourceHandler
from netfw.server.core.server_context import ServerContext
from netfw.server.core.unit_of_work import UnitOfWork
from netfw.server.db.resources.query_builder import conditions
from netfw.server.db.schema.resource_tables import table_mapping
from netfw.server.db.schema.shareable_kinds import SHAREABLE
from netfw.server.rbac.policies import RbacPlugin
from netfw.server.security_groups.groups import SecurityGroupsPlugin
from tests.server.security_groups.client import ADMIN, ANNA, BERT, group, rule

pytestmark = pytest.mark.spec("API-07")

CARL = RequestContext(project_id="carl")


class AddressGroups(StoredResourceHandler[AddressGroup]):
    """A plain handler."""

    name, kind, quota = "address_group", Kind.ADDRESS_GROUP, None

    def do_create(self, unit: UnitOfWork, bodies: Sequence[Body]) -> tuple[AddressGroup, ...]:
        made = (parse(self.kind, {**body, "id": str(uuid4())}) for body in bodies)
        return unit.insert(*(cast(AddressGroup, each) for each in made))

    def do_update(self, unit: UnitOfWork, before: AddressGroup, body: Body) -> AddressGroup:
        return unit.update(before, evolve(before, shared=bool(body["shared"])))

    def do_delete(self, unit: UnitOfWork, before: AddressGroup) -> None:
        unit.delete(before)


class AddressGroupPlugin(RbacPlugin):
    """A plugin with that handler alone."""

    def __init__(self, context: ServerContext) -> None:
        HandlerPlugin.__init__(self, context, (AddressGroups(),))


class Groups:
    """An address group of Anna, and policies for it."""

    def __init__(self, context: ServerContext) -> None:
        self.groups = AddressGroupPlugin(context)
        self.rules, self.policies = SecurityGroupsPlugin(context), RbacPlugin(context)
        body = {"project_id": "anna", "addresses": ["192.0.2.0/24"]}
        (made,) = self.groups.create(ANNA, "address_group", [body])
        self.id = str(made["id"])

    def share(self, target: str) -> str:
        body = {
            "project_id": "anna",
            "object_type": "address_group",
            "object_id": self.id,
            "action": "access_as_shared",
            "target_tenant": target,
        }
        return str(self.policies.create(ADMIN, "rbac_policy", [body])[0]["id"])

    def withdraw(self, policy: str) -> None:
        self.policies.delete(ADMIN, "rbac_policy", policy)

    def views(self) -> dict[str, object]:
        """Return whether the group is shared, for each project that sees it."""
        found: dict[str, object] = {}
        for who in (ANNA, BERT, CARL):
            for body in self.groups.find(who, "address_group", Query()):
                found[who.project_id] = body["shared"]
        return found

    def name_in_a_rule(self, who: RequestContext) -> str:
        own = group(self.rules, who)["id"]
        return str(rule(self.rules, own, who, remote_address_group_id=self.id)["id"])


@pytest.fixture
def groups(context: ServerContext) -> Groups:
    return Groups(context)


def test_every_declared_kind_has_a_table_with_the_flag_and_filters_for_its_uses() -> None:
    for kind, shareable in SHAREABLE.items():
        assert "shared" in table_mapping(kind).columns
        for use in shareable.uses:
            assert conditions(use.kind, {use.attribute: (str(uuid4()),)})


def test_it_is_shared_and_withdrawn(groups: Groups) -> None:
    assert groups.views() == {"anna": False}
    one = groups.share("bert")
    assert groups.views() == {"anna": False, "bert": True}
    everyone = groups.share("*")
    assert groups.views() == {"anna": True, "bert": True, "carl": True}
    groups.withdraw(one)
    groups.withdraw(everyone)
    assert groups.views() == {"anna": False}


def test_its_flag_is_a_policy(groups: Groups) -> None:
    for shared in (True, False):
        groups.groups.update(ADMIN, "address_group", groups.id, {"shared": shared})
        policies = groups.policies.find(ADMIN, "rbac_policy", Query())
        assert [each["target_tenant"] for each in policies] == ["*"] * shared
        assert groups.views().get("carl") is (True if shared else None)


def test_a_rule_that_names_it_keeps_the_policy(groups: Groups) -> None:
    with pytest.raises(NotFound):
        groups.name_in_a_rule(BERT)
    policy = groups.share("bert")
    used = groups.name_in_a_rule(BERT)
    with pytest.raises(RbacPolicyInUse, match=used):
        groups.withdraw(policy)
    groups.rules.delete(BERT, "security_group_rule", used)
    groups.withdraw(policy)


def test_its_policies_end_with_it(groups: Groups) -> None:
    groups.share("bert")
    groups.groups.delete(ANNA, "address_group", groups.id)
    assert groups.policies.find(ADMIN, "rbac_policy", Query()) == ()
