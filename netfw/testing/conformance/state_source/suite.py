"""The suite that every state source passes.

In your own tests, with plain pytest::

    class TestMySource(StateSourceConformance):
        @contextmanager
        def make_environment(self, page: int) -> Iterator[SourceEnvironment]:
            source = MySource(page=page)
            yield SourceEnvironment(source, MyBackend(source))
            source.close()

If the source can be unreachable, pass a cut-off: ``SourceEnvironment(source, backend, cut)``.
"""

from __future__ import annotations

import threading

import pytest
from attrs import evolve
from hypothesis import given

from netfw.drivers.state_source import Cursor, StateSource
from netfw.drivers.values.agent_requests import EnsureDhcpPort, Request
from netfw.drivers.values.subscription import Service, Subscription
from netfw.errors import BackendUnavailable, CursorLost, NotSupported, RequestError
from netfw.model.resource import ref
from netfw.model.values.common_fields import Status
from netfw.state.dependencies import reachable
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.state_source import samples
from netfw.testing.conformance.state_source.case import WIDE
from netfw.testing.conformance.state_source.distributed_routers import DistributedRouterTests
from netfw.testing.conformance.state_source.environment import Follower
from netfw.testing.conformance.state_source.ha_routers import HaRouterTests
from netfw.testing.conformance.state_source.histories import Step, histories, subscriptions
from netfw.testing.conformance.state_source.reader_steps import (
    HintedReader,
    cursor_of,
    ports,
    refs,
    stored,
    take,
    up,
    write,
)
from netfw.testing.conformance.state_source.routers import RouterTests


class UnknownRequest(Request[None]):
    """A request of a kind that no source answers."""


class StateSourceConformance(RouterTests, HaRouterTests, DistributedRouterTests):
    """The tests of state sources.  Override :meth:`make_environment`."""

    @proves(StateSource, 1)
    def test_a_snapshot_is_exactly_what_the_subscription_covers(self) -> None:
        expected = {
            samples.L2_HERE: self.refs((*samples.WITH_WEB_HERE, samples.AGENT_THERE)),
            samples.POPULATED_HERE: self.refs(
                (*samples.WITH_WEB_HERE, samples.AGENT_THERE, samples.NEIGHBOUR)
            ),
            samples.DHCP_HERE: refs((samples.NET, samples.SUBNET, samples.SEGMENT))
            | refs((samples.WEB_HERE, samples.NEIGHBOUR)),
        }
        with self.make_environment(3) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE, samples.DHCP_ASSIGNMENT))
            for subscription, concerned in expected.items():
                pages = list(at.source.snapshot(subscription))
                delivered = [ref(resource) for page in pages for resource in page.put]
                assert sorted(map(str, delivered)) == sorted(map(str, concerned)), subscription
                assert [page.more for page in pages] == [True] * (len(pages) - 1) + [False]
            assert [page.put for page in at.source.snapshot(samples.L3_HERE)] == [()]

    @proves(StateSource, 2)
    def test_what_is_committed_while_a_snapshot_is_read_is_not_lost(self) -> None:
        late = samples.port(9, samples.HERE, samples.OTHER_NET)
        with self.make_environment(2) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            follower = Follower(at.source, samples.L2_HERE)
            follower.step()  # begins
            follower.step()  # reads one page of several
            at.backend.commit((late, evolve(samples.NET, name="renamed")))
            at.backend.commit((), (ref(samples.FROM_DB),))
            assert follower.catch_up() == reachable(at.backend.items(), samples.L2_HERE)

    @proves(StateSource, 2)
    def test_the_cursor_of_a_snapshot_is_older_than_its_first_page(self) -> None:
        with self.make_environment(2) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            pages = at.source.snapshot(samples.L2_HERE)
            first = next(pages)
            at.backend.commit((evolve(samples.NET, name="renamed"),))
            assert {page.cursor for page in pages} == {first.cursor}
            assert ref(samples.NET) in refs(at.source.changes(samples.L2_HERE, first.cursor).put)

    @proves(StateSource, 2)
    def test_any_history_read_in_any_way_ends_with_what_is_reachable(self) -> None:
        @self.examples
        @given(histories, subscriptions, subscriptions)
        def holds(history: list[Step], one: Subscription, other: Subscription) -> None:
            with self.make_environment(2) as at:
                followers = Follower(at.source, one), Follower(at.source, other)
                for step in history:
                    take(step, at, followers)
                for follower in followers:
                    expected = reachable(at.backend.items(), follower.subscription)
                    assert follower.catch_up() == expected

        holds()

    @proves(StateSource, 2)
    def test_writers_and_readers_at_the_same_time_agree_in_the_end(self) -> None:
        with self.make_environment(2) as at:
            at.backend.commit(samples.BACKGROUND)
            writers = [threading.Thread(target=write, args=(at, n)) for n in range(3)]
            followers = [
                Follower(at.source, subscription)
                for subscription in (samples.L2_HERE, samples.POPULATED_HERE, samples.L2_THERE)
            ]
            for writer in writers:
                writer.start()
            while any(writer.is_alive() for writer in writers):
                for follower in followers:
                    follower.step()
            for writer in writers:
                writer.join()
            for follower in followers:
                assert follower.catch_up() == reachable(at.backend.items(), follower.subscription)

    @proves(StateSource, 3)
    def test_a_commit_that_was_slow_is_not_skipped(self) -> None:
        slow, quick = samples.port(8, samples.HERE), samples.port(9, samples.HERE)
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            follower = Follower(at.source, samples.L2_HERE)
            follower.catch_up()
            finish = at.backend.begin((slow,))
            at.backend.commit((quick,))
            assert ref(quick) in follower.catch_up()
            finish()
            assert ref(slow) in follower.catch_up()

    @proves(StateSource, 4)
    def test_the_first_port_of_a_network_brings_all_that_it_refers_to(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((samples.WEB_HERE,))
            delta = at.source.changes(samples.L2_HERE, cursor)
            assert refs(delta.put) == self.refs(samples.WITH_WEB_HERE)
            assert not delta.drop

    @proves(StateSource, 4)
    def test_a_new_reference_brings_what_it_leads_to(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            at.backend.commit((), (ref(samples.FROM_DB),))
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((samples.FROM_DB,))
            delta = at.source.changes(samples.L2_HERE, cursor)
            assert refs(delta.put) == refs((samples.FROM_DB, samples.DB_THERE))

    @proves(StateSource, 5)
    def test_what_is_no_longer_reachable_is_dropped(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((evolve(samples.WEB_HERE, binding=samples.OTHER_HOST_PORT.binding),))
            delta = at.source.changes(samples.L2_HERE, cursor)
            assert delta.drop == self.refs(samples.WITH_WEB_HERE)
            assert not delta.put

    @proves(StateSource, 5)
    def test_members_go_with_the_rule_that_referred_to_them(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((*samples.BACKGROUND, samples.WEB_HERE))
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((), (ref(samples.FROM_DB),))
            delta = at.source.changes(samples.L2_HERE, cursor)
            assert delta.drop == refs((samples.FROM_DB, samples.DB_THERE))

    @proves(StateSource, 6)
    def test_nothing_changes_while_nothing_happens(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((samples.WEB_HERE,))
            once = at.source.changes(samples.L2_HERE, cursor)
            twice = at.source.changes(samples.L2_HERE, cursor)
            assert refs(once.put) <= refs(twice.put)
            rest = at.source.changes(samples.L2_HERE, twice.cursor)
            assert (rest.put, rest.drop, rest.more) == ((), frozenset(), False)

    @proves(StateSource, 7)
    def test_going_on_with_the_cursor_of_an_answer_comes_to_an_end(self) -> None:
        with self.make_environment(1) as at:
            cursor = cursor_of(at, samples.L2_HERE)
            for number in range(1, 6):
                at.backend.commit((samples.port(number, samples.HERE),))
            answers = [at.source.changes(samples.L2_HERE, cursor)]
            while answers[-1].more and len(answers) < 100:
                answers.append(at.source.changes(samples.L2_HERE, answers[-1].cursor))
            assert not answers[-1].more
            delivered = {key for answer in answers for key in refs(answer.put)}
            assert delivered == refs(samples.port(number, samples.HERE) for number in range(1, 6))

    @proves(StateSource, 8)
    @proves_raise(StateSource, "changes", CursorLost)
    def test_a_forgotten_cursor_is_lost(self) -> None:
        with self.make_environment(WIDE) as at:
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.commit((samples.WEB_HERE,))
            at.backend.forget_history()
            with pytest.raises(CursorLost):
                at.source.changes(samples.L2_HERE, cursor)

    @proves(StateSource, 8)
    def test_a_cursor_from_before_a_restore_is_lost(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((samples.WEB_HERE,))
            cursor = cursor_of(at, samples.L2_HERE)
            at.backend.restore(samples.BACKGROUND)
            with pytest.raises(CursorLost):
                at.source.changes(samples.L2_HERE, cursor)

    @proves(StateSource, 8)
    def test_a_cursor_from_the_future_is_lost(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit((samples.WEB_HERE,))
            cursor = cursor_of(at, samples.L2_HERE)
            with pytest.raises(CursorLost):
                at.source.changes(samples.L2_HERE, Cursor(cursor.epoch, cursor.seq + 1000))

    @proves(StateSource, 9)
    def test_a_hint_follows_a_commit_and_then_changes_has_it(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            cursor = cursor_of(at, samples.L2_HERE)
            agent = HintedReader(at, cursor, samples.WEB_HERE)
            stop = at.source.watch(samples.L2_HERE, agent.hint)
            at.backend.commit((samples.WEB_HERE,))
            assert agent.has_received(), "no hint came after which it was there"
            stop()
            stop()

    @proves(StateSource, 9)
    def test_no_hint_comes_after_a_watch_was_stopped(self) -> None:
        with self.make_environment(WIDE) as at:
            cursor = cursor_of(at, samples.L2_HERE)
            stopped, other = list[None](), HintedReader(at, cursor, samples.WEB_HERE)
            stop = at.source.watch(samples.L2_HERE, lambda: stopped.append(None))
            at.source.watch(samples.L2_HERE, other.hint)
            stop()
            stopped.clear()
            at.backend.commit((samples.WEB_HERE,))
            assert other.has_received(), "the watch that was not stopped got no hint"
            assert not stopped

    @proves(StateSource, 10)
    def test_a_report_counts(self) -> None:
        with self.make_environment(WIDE) as at:
            port = stored(at, samples.WEB_HERE)
            at.source.report([up(port, samples.HERE)])
            at.source.report([up(port, samples.HERE)])
            assert at.backend.status(ref(port), Service.L2) is Status.ACTIVE

    @proves(StateSource, 10)
    def test_a_report_of_an_older_revision_is_ignored(self) -> None:
        with self.make_environment(WIDE) as at:
            old = stored(at, samples.WEB_HERE)
            stored(at, evolve(samples.WEB_HERE, admin_up=False, revision=old.revision + 1))
            at.source.report([up(old, samples.HERE)])
            assert at.backend.status(ref(old), Service.L2) is not Status.ACTIVE

    @proves(StateSource, 10)
    def test_a_report_of_another_host_is_ignored(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            port = stored(at, samples.WEB_HERE)
            at.source.report([up(port, samples.THERE)])
            assert at.backend.status(ref(port), Service.L2) is not Status.ACTIVE

    @proves(StateSource, 10)
    def test_a_report_on_what_is_gone_is_ignored(self) -> None:
        with self.make_environment(WIDE) as at:
            port = stored(at, samples.WEB_HERE)
            at.backend.commit((), (ref(port),))
            at.source.report([up(port, samples.HERE)])
            assert at.backend.status(ref(port), Service.L2) is not Status.ACTIVE

    @proves(StateSource, 11)
    def test_asking_twice_makes_one_thing(self) -> None:
        request = EnsureDhcpPort(
            network=samples.NET.id, host=samples.HERE, subnets=frozenset({samples.SUBNET.id})
        )
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            before = ports(at)
            try:
                first = at.source.request(request)
            except NotSupported:
                pytest.skip("this source makes no ports")
            assert at.source.request(request) == first
            assert ports(at) - before == {ref(first)}
            assert first.binding.host == samples.HERE
            assert [fixed.subnet_id for fixed in first.fixed_ips] == [samples.SUBNET.id]

    @proves_raise(StateSource, "request", NotSupported)
    def test_a_request_of_a_kind_it_does_not_know_is_refused(self) -> None:
        with self.make_environment(WIDE) as at, pytest.raises(NotSupported):
            at.source.request(UnknownRequest())

    @proves_raise(StateSource, "request", RequestError)
    def test_a_request_that_cannot_be_is_refused(self) -> None:
        request = EnsureDhcpPort(
            network=samples.NET.id, host=samples.HERE, subnets=frozenset({samples.SUBNET.id})
        )
        with self.make_environment(WIDE) as at, pytest.raises(RequestError):
            at.source.request(request)  # the network does not exist

    @proves_raise(StateSource, "snapshot", BackendUnavailable)
    @proves_raise(StateSource, "changes", BackendUnavailable)
    @proves_raise(StateSource, "report", BackendUnavailable)
    @proves_raise(StateSource, "request", BackendUnavailable)
    def test_an_unreachable_source_raises(self) -> None:
        with self.make_environment(WIDE) as at:
            if at.cut is None:
                pytest.skip("this source is never out of reach")
            port = stored(at, samples.WEB_HERE)
            cursor = cursor_of(at, samples.L2_HERE)
            at.cut()
            for attempt in (
                lambda: list(at.source.snapshot(samples.L2_HERE)),
                lambda: at.source.changes(samples.L2_HERE, cursor),
                lambda: at.source.report([up(port, samples.HERE)]),
                lambda: at.source.request(UnknownRequest()),
            ):
                with pytest.raises(BackendUnavailable):
                    attempt()

    @proves(StateSource, 12)
    def test_agents_do_not_disturb_each_other(self) -> None:
        with self.make_environment(WIDE) as at:
            at.backend.commit(samples.BACKGROUND)
            cursor, theirs = cursor_of(at, samples.L2_HERE), cursor_of(at, samples.L2_THERE)
            at.backend.commit((samples.WEB_HERE, evolve(samples.NET, name="renamed")))
            first = at.source.changes(samples.L2_HERE, cursor)
            other = at.source.changes(samples.L2_THERE, theirs)
            list(at.source.snapshot(samples.L2_HERE))
            again = at.source.changes(samples.L2_HERE, cursor)
            assert refs(again.put) == refs(first.put)
            assert refs(other.put) == refs((samples.NET,))
