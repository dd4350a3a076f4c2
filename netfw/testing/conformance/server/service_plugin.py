"""The suite that every service plugin passes.

In your own tests, with plain pytest::

    class TestMyPlugin(ServicePluginConformance):
        def make_plugin(self, host: HostResources) -> ServicePlugin:
            return MyPlugin.from_conf({}, host)

        def resource_name(self) -> str:
            return "widget"

        def body(self, environment: PluginEnvironment[ServicePlugin]) -> Body:
            return {"name": f"widget {next(self.numbers)}", "size": 1}
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import pytest
from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.server.change import Change
from netfw.drivers.server.resource_plugin import ResourcePlugin
from netfw.drivers.server.service_plugin import ServicePlugin
from netfw.drivers.values.agent_requests import Request
from netfw.errors import NotSupported, RequestError
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.server import mechanism_samples as samples
from netfw.testing.conformance.server.core_plugin import RESOURCES
from netfw.testing.conformance.server.resource_plugin import (
    OWNER,
    PluginEnvironment,
    ResourcePluginConformance,
)
from netfw.testing.conformance.watch.io_events import observed_io

EFFORT = 50_000
"""Calls of functions that one validation may take."""
At = PluginEnvironment[ServicePlugin]


@frozen
class UnknownServiceRequest(Request[None]):
    """A request that no plugin answers."""


class ServicePluginConformance(ResourcePluginConformance[ServicePlugin]):
    """One test or more per promise of :class:`ServicePlugin` that a plugin can keep or break."""

    IS_JOURNALED: ClassVar[bool] = False
    numbers: ClassVar[Iterator[int]] = itertools.count(1)
    """Numbers for the names of resources."""

    def unacceptable(self, environment: At) -> Change | None:
        """Return a change that ``validate`` refuses; ``None``: it accepts all."""
        return None

    def agent_request(self, environment: At) -> Request[Any] | None:
        """Return a request that the plugin answers; ``None``: it answers none."""
        return None

    def impossible_request(self, environment: At) -> Request[Any] | None:
        """Return a request that the plugin refuses; ``None``: there is none."""
        return None

    @proves(ServicePlugin, 1)
    def test_its_resources_are_no_other_plugins(self) -> None:
        with self.make_environment() as at:
            names = at.plugin.resource_names
            assert names, "a service plugin stores resources"
            assert not names & RESOURCES, "the core plugin stores them"

    @proves(ServicePlugin, 2)
    def test_validation_is_quick_changes_nothing_and_can_be_repeated(self) -> None:
        with self.make_environment() as at:
            self.create(at)
            before, position = self.ids(at), at.server.journal_position()
            for change in self.changes():
                answers = [self.validate(at, change) for _ in range(2)]
                assert answers[0] == answers[1], f"two answers to one change: {answers}"
            assert self.ids(at) == before
            assert at.server.journal_position() == position

    def exercise(self, at: At) -> None:
        super().exercise(at)
        for change in self.changes():
            with suppress(RequestError):
                at.plugin.validate(change)

    def validate(self, at: At, change: Change) -> str:
        """Return the refusal of *change*, or empty text; no I/O and little work are allowed."""
        with observed_io() as events:
            try:
                count_calls(partial(at.plugin.validate, change), EFFORT)
            except RequestError as exc:
                return str(exc) or type(exc).__name__
            finally:
                assert not events, f"validate touched files, sockets or processes: {events[:5]}"
        return ""

    def changes(self) -> Iterator[Change]:
        """Yield the creation, change and deletion of a network, a subnet and a port."""
        for first, second, _ in samples.HISTORIES:
            yield samples.change(None, first)
            yield samples.change(first, second)
            yield samples.change(second, None)

    @proves(ServicePlugin, 2)
    @proves_raise(ServicePlugin, "validate", RequestError)
    def test_an_unacceptable_change_is_refused(self) -> None:
        with self.make_environment() as at:
            change = self.unacceptable(at)
            if change is None:
                pytest.skip("the plugin accepts every change")
            for _ in range(2):
                with pytest.raises(RequestError) as refusal:
                    at.plugin.validate(change)
                assert str(refusal.value), "a refusal has a reason"

    @proves(ServicePlugin, 3)
    def test_a_member_action_is_one_change(self) -> None:
        with self.make_environment() as at:
            action = self.member_action(at)
            if action is None:
                pytest.skip("the resource has no action")
            name = self.resource_name()
            before = at.plugin.show(OWNER, name, action.id)["revision_number"]
            at.plugin.member_action(OWNER, name, action.id, action.action, action.body)
            after = at.plugin.show(OWNER, name, action.id)["revision_number"]
            assert isinstance(before, int)
            assert after == before + 1, f"the revision went from {before} to {after}"

    @proves(ServicePlugin, 4)
    def test_a_repeated_request_has_an_equal_answer_and_no_second_effect(self) -> None:
        with self.make_environment() as at:
            request = self.agent_request(at)
            if request is None:
                pytest.skip("the plugin answers no requests of agents")
            first = at.plugin.handle_request(request)
            position, ids = at.server.journal_position(), self.ids(at)
            assert at.plugin.handle_request(request) == first
            assert (at.server.journal_position(), self.ids(at)) == (position, ids)

    @proves_raise(ServicePlugin, "handle_request", NotSupported)
    def test_an_unknown_request_is_not_supported(self) -> None:
        with self.make_environment() as at, pytest.raises(NotSupported):
            at.plugin.handle_request(UnknownServiceRequest())

    @proves_raise(ServicePlugin, "handle_request", RequestError)
    def test_an_impossible_request_is_refused(self) -> None:
        with self.make_environment() as at:
            request = self.impossible_request(at)
            if request is None:
                pytest.skip("no request of an agent is impossible")
            with pytest.raises(RequestError), suppress(NotSupported):
                at.plugin.handle_request(request)


CONTRACTS = (Driver, ResourcePlugin, ServicePlugin)
"""The contracts that the suite tests."""
