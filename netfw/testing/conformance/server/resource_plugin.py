"""Tests of the promises of every `ResourcePlugin`; the suites of core and service plugins add to
them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import ClassVar, Generic, TypeVar
from uuid import uuid4

import pytest
from attrs import frozen

from netfw.drivers.base import Driver, HostResources
from netfw.drivers.server.query import Body, Query, RequestContext
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.errors import Conflict, NotFound, NotSupported, Outdated, RequestError
from netfw.testing.conformance.common.driver_rules import DriverConformance
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.server.server_environment import PluginServer, plugin_server
from netfw.testing.conformance.watch import held_resources
from netfw.testing.conformance.watch.held_resources import growth, read_held_resources

P = TypeVar("P", bound=ResourcePlugin)
OWNER = RequestContext(project_id="owner", roles=frozenset({"member"}))
STRANGER = RequestContext(project_id="stranger", roles=frozenset({"member"}))
ADMIN = RequestContext(project_id="admins", admin=True)
WRITERS, ROUNDS = 4, 5


@frozen(kw_only=True)
class PluginEnvironment(Generic[P]):
    """A started server with the plugin."""

    plugin: P
    server: PluginServer


@frozen(kw_only=True)
class MemberAction:
    """A member action of an existing resource, as the API calls it."""

    id: str
    action: str
    body: Body


class ResourcePluginConformance(DriverConformance, Generic[P]):
    """One test or more per promise of :class:`ResourcePlugin`.

    The server is real: its database is an SQLite file, its drivers record their calls.
    """

    HOOKS: ClassVar[tuple[str, ...]] = ("make_plugin", "resource_name", "body")
    IS_JOURNALED: ClassVar[bool] = True
    """Whether agents receive the resource; false: its changes need no journal entry."""

    def make_plugin(self, host: HostResources) -> P:
        """Return a plugin of the server of *host*; it may load other plugins that it needs."""
        raise NotImplementedError("override `make_plugin`")

    def resource_name(self) -> str:
        """Return the name of a resource of the plugin that is created, changed and deleted."""
        raise NotImplementedError("override `resource_name`")

    def body(self, environment: PluginEnvironment[P]) -> Body:
        """Return the body of a request that creates one, different at each call, with a name."""
        raise NotImplementedError("override `body`")

    def impossible_body(self, environment: PluginEnvironment[P]) -> Body | None:
        """Return a body that the plugin refuses; ``None``: it accepts what the API accepts."""
        return None

    def contradiction(self, environment: PluginEnvironment[P]) -> tuple[str, Body] | None:
        """Return the id of a resource and a change of it that contradicts another resource."""
        return None

    def used_resource(self, environment: PluginEnvironment[P]) -> str | None:
        """Return the id of a resource that cannot be deleted, being in use."""
        return None

    def member_action(self, environment: PluginEnvironment[P]) -> MemberAction | None:
        """Return an action that succeeds; ``None``: the resource has none."""
        return None

    def impossible_action(self, environment: PluginEnvironment[P]) -> MemberAction | None:
        """Return an action that is refused; ``None``: there is none."""
        return None

    @contextmanager
    def make_environment(self) -> Iterator[PluginEnvironment[P]]:
        """Yield a server of its own with the plugin."""
        plugins: list[P] = []
        with plugin_server(lambda server: plugins.append(self.make_plugin(server.host))) as server:
            yield PluginEnvironment(plugin=plugins[0], server=server)

    @contextmanager
    def maker(self) -> Iterator[Callable[[], P]]:
        """Yield a factory of plugins, each with a server of its own."""
        self._environments: list[PluginEnvironment[P]] = []
        with ExitStack() as stack:

            def make() -> P:
                self._environments.append(stack.enter_context(self.make_environment()))
                return self._environments[-1].plugin

            yield make

    def use(self, driver: Driver) -> None:
        (at,) = [each for each in self._environments if each.plugin is driver]
        self.exercise(at)

    def exercise(self, at: PluginEnvironment[P]) -> None:
        """Make the calls by which a plugin may come to hold something."""
        name, id = self.resource_name(), str(self.create(at)["id"])
        at.plugin.show(OWNER, name, id)
        at.plugin.update(OWNER, name, id, {"name": "changed"})
        self.ids(at)
        at.plugin.delete(OWNER, name, id)

    @proves(Driver, 3)
    def test_a_closed_driver_holds_nothing(self) -> None:
        """Close plugins; the server of each ends with it."""
        before = None
        for _ in range(held_resources.ROUNDS + 1):
            with self.make_environment() as at:
                self.exercise(at)
                at.plugin.close()
                at.plugin.close()
            before = before or read_held_resources()
        assert before is not None
        left = list(growth(before, read_held_resources(), held_resources.ROUNDS))
        assert not left, f"promise 3 of Driver, after close(): {'; '.join(left)}"

    @proves(Driver, 3)
    def test_repeated_requests_hold_no_more_than_one(self) -> None:
        with self.make_environment() as at:
            before = None
            for _ in range(held_resources.ROUNDS + 1):
                self.exercise(at)
                before = before or read_held_resources()
            assert before is not None
            left = list(growth(before, read_held_resources(), held_resources.ROUNDS))
        assert not left, f"promise 3 of Driver, after repeated requests: {'; '.join(left)}"

    def create(self, at: PluginEnvironment[P], requester: RequestContext = OWNER) -> Body:
        """Create one resource of *requester*."""
        body = {"project_id": requester.project_id, **self.body(at)}
        (made,) = at.plugin.create(requester, self.resource_name(), [body])
        return made

    def ids(self, at: PluginEnvironment[P], requester: RequestContext = OWNER) -> set[str]:
        """Return the ids of the resources that *requester* sees."""
        found = at.plugin.find(requester, self.resource_name(), Query())
        return {str(each["id"]) for each in found}

    @proves(ResourcePlugin, 1)
    def test_resources_are_created_in_order_and_shown_as_created(self) -> None:
        with self.make_environment() as at:
            bodies = [{"project_id": OWNER.project_id, **self.body(at)} for _ in range(3)]
            requested, before = deepcopy(bodies), self.ids(at)
            made = at.plugin.create(OWNER, self.resource_name(), bodies)
            for body, each in zip(requested, made, strict=True):
                assert {**each, **body} == each, "a resource is not as it was requested"
            assert self.ids(at) == before | {str(each["id"]) for each in made}
            for each in made:
                assert at.plugin.show(OWNER, self.resource_name(), str(each["id"])) == each

    @proves(ResourcePlugin, 1)
    @proves_raise(ResourcePlugin, "create", RequestError)
    def test_one_impossible_resource_of_a_list_is_none_of_them(self) -> None:
        with self.make_environment() as at:
            impossible = self.impossible_body(at)
            if impossible is None:
                pytest.skip("the plugin accepts what the API accepts")
            owned = {"project_id": OWNER.project_id}
            bodies = [{**owned, **self.body(at)}, {**owned, **impossible}]
            before = self.ids(at)
            with pytest.raises(RequestError):
                at.plugin.create(OWNER, self.resource_name(), bodies)
            assert self.ids(at) == before, "a part of a refused list was created"

    @proves(ResourcePlugin, 2)
    def test_each_change_has_a_revision_and_a_journal_entry(self) -> None:
        with self.make_environment() as at:
            name, position = self.resource_name(), at.server.journal_position
            start = position()
            made = self.create(at)
            created = position()
            changed = at.plugin.update(OWNER, name, str(made["id"]), {"name": "changed"})
            updated = position()
            assert changed["name"] == "changed"
            assert _revision(changed) > _revision(made), "a change without a revision"
            at.plugin.delete(OWNER, name, str(made["id"]))
            if self.IS_JOURNALED:
                assert start < created < updated < position(), "a change without a journal entry"

    @proves(ResourcePlugin, 2)
    def test_a_change_that_is_refused_later_leaves_nothing(self) -> None:
        with self.make_environment() as at:
            made = self.create(at)
            before, position = self.ids(at), at.server.journal_position()
            with self.refused_changes(at):
                with pytest.raises(Conflict):
                    self.create(at)
                with pytest.raises(Conflict):
                    at.plugin.update(OWNER, self.resource_name(), str(made["id"]), {"name": "new"})
            assert self.ids(at) == before
            assert at.plugin.show(OWNER, self.resource_name(), str(made["id"])) == made
            assert at.server.journal_position() == position

    @contextmanager
    def refused_changes(self, at: PluginEnvironment[P]) -> Iterator[None]:
        """Have every change refused just before its commit, as by a service plugin."""
        if not self.IS_JOURNALED:
            pytest.skip("no other plugin or driver validates the changes of this resource")

        def refuse(_: object, __: object) -> None:
            raise Conflict("refused before the commit")

        hooks = at.server.core.context.precommit_hooks
        hooks.append(refuse)
        yield
        hooks.remove(refuse)

    @proves(ResourcePlugin, 3)
    @proves_raise(ResourcePlugin, "update", Outdated)
    @proves_raise(ResourcePlugin, "delete", Outdated)
    def test_a_revision_that_is_outdated_changes_nothing(self) -> None:
        with self.make_environment() as at:
            made, name = self.create(at), self.resource_name()
            id, old = str(made["id"]), _revision(made)
            changed = at.plugin.update(OWNER, name, id, {"name": "second"}, old)
            with pytest.raises(Outdated):
                at.plugin.update(OWNER, name, id, {"name": "third"}, old)
            with pytest.raises(Outdated):
                at.plugin.delete(OWNER, name, id, old)
            assert at.plugin.show(OWNER, name, id) == changed
            at.plugin.delete(OWNER, name, id, _revision(changed))
            assert id not in self.ids(at)

    @proves(ResourcePlugin, 4)
    @proves_raise(ResourcePlugin, "show", NotFound)
    @proves_raise(ResourcePlugin, "update", NotFound)
    @proves_raise(ResourcePlugin, "delete", NotFound)
    def test_what_a_requester_may_not_see_does_not_exist_for_it(self) -> None:
        with self.make_environment() as at:
            made, name = self.create(at), self.resource_name()
            for id in (str(made["id"]), str(uuid4())):
                with pytest.raises(NotFound):
                    at.plugin.show(STRANGER, name, id)
                with pytest.raises(NotFound):
                    at.plugin.update(STRANGER, name, id, {"name": "mine"})
                with pytest.raises(NotFound):
                    at.plugin.delete(STRANGER, name, id)
            assert str(made["id"]) not in self.ids(at, STRANGER)
            assert str(made["id"]) in self.ids(at, ADMIN)
            assert at.plugin.show(OWNER, name, str(made["id"])) == made

    @proves(ResourcePlugin, 5)
    def test_concurrent_changes_of_one_resource_all_succeed(self) -> None:
        with self.make_environment() as at:
            made, failures = self.create(at), list[BaseException]()

            def write(writer: int) -> None:
                try:
                    for round in range(ROUNDS):
                        change = {"name": f"by {writer} in round {round}"}
                        at.plugin.update(OWNER, self.resource_name(), str(made["id"]), change)
                except BaseException as exc:  # noqa: BLE001 - the test reports it
                    failures.append(exc)

            threads = [threading.Thread(target=write, args=(each,)) for each in range(WRITERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
            last = at.plugin.show(OWNER, self.resource_name(), str(made["id"]))
            assert _revision(last) == _revision(made) + WRITERS * ROUNDS

    @proves_raise(ResourcePlugin, "update", Conflict)
    def test_a_change_that_contradicts_another_resource_is_refused(self) -> None:
        with self.make_environment() as at:
            contradiction = self.contradiction(at)
            if contradiction is None:
                pytest.skip("no change contradicts another resource")
            id, change = contradiction
            before = at.plugin.show(ADMIN, self.resource_name(), id)
            with pytest.raises(Conflict) as refusal:
                at.plugin.update(OWNER, self.resource_name(), id, change)
            assert str(refusal.value)
            assert at.plugin.show(ADMIN, self.resource_name(), id) == before

    @proves_raise(ResourcePlugin, "delete", Conflict)
    def test_a_resource_in_use_is_not_deleted(self) -> None:
        with self.make_environment() as at:
            id = self.used_resource(at)
            if id is None:
                pytest.skip("nothing uses the resource")
            with pytest.raises(Conflict) as refusal:
                at.plugin.delete(OWNER, self.resource_name(), id)
            assert str(refusal.value)
            assert id in self.ids(at)

    @proves_raise(ResourcePlugin, "member_action", NotSupported)
    def test_an_unknown_action_is_not_supported(self) -> None:
        with self.make_environment() as at:
            made = self.create(at)
            with pytest.raises(NotSupported):
                at.plugin.member_action(
                    OWNER, self.resource_name(), str(made["id"]), "no_such_action", {}
                )

    @proves_raise(ResourcePlugin, "member_action", NotFound)
    def test_an_action_on_an_unknown_resource_is_not_found(self) -> None:
        with self.make_environment() as at:
            action = self.member_action(at)
            if action is None:
                pytest.skip("the resource has no action")
            for requester, id in ((STRANGER, action.id), (OWNER, str(uuid4()))):
                with pytest.raises(NotFound):
                    at.plugin.member_action(
                        requester, self.resource_name(), id, action.action, action.body
                    )

    @proves_raise(ResourcePlugin, "member_action", RequestError)
    def test_an_impossible_action_changes_nothing(self) -> None:
        with self.make_environment() as at:
            action = self.impossible_action(at)
            if action is None:
                pytest.skip("no action is impossible")
            before = at.plugin.show(ADMIN, self.resource_name(), action.id)
            with pytest.raises(RequestError):
                at.plugin.member_action(
                    OWNER, self.resource_name(), action.id, action.action, action.body
                )
            assert at.plugin.show(ADMIN, self.resource_name(), action.id) == before

    def test_the_names_of_resources_are_constant(self) -> None:
        with self.make_environment() as at:
            names = at.plugin.resource_names
            self.create(at)
            assert at.plugin.resource_names == names
            assert self.resource_name() in names


def _revision(body: Body) -> int:
    revision = body["revision_number"]
    assert isinstance(revision, int), f"{revision!r} is no revision"
    return revision
