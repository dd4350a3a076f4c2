"""The suite that every notifier passes.

In your own tests, with plain pytest::

    class TestMyNotifier(NotifierConformance):
        @contextmanager
        def make_environment(self) -> Iterator[NotifierEnvironment]:
            receiver = MyReceiver()
            yield NotifierEnvironment(
                make=lambda: MyNotifier(receiver.url),
                received=receiver.ids,
                outage=receiver.stopped,
                refusal=receiver.refusing,
            )

        def relevant_changes(self) -> Sequence[Change]:
            return [Change(before=None, after=port_of(1)), Change(before=None, after=port_of(2))]

What the outbox does around a notifier (order, batches, retries) is a promise of the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar
from uuid import UUID

import pytest
from attrs import frozen

from netfw.drivers.server.change import Change
from netfw.drivers.server.notifier import Notifier
from netfw.errors import BackendUnavailable, NetfwError
from netfw.testing.conformance.common.call_counter import count_calls
from netfw.testing.conformance.common.promises import proves, proves_raise
from netfw.testing.conformance.common.required_hooks import RequiresHooks
from netfw.testing.conformance.server import mechanism_samples as samples

EFFORT = 20_000
"""Calls of functions that one answer within a transaction may take."""


@frozen(kw_only=True)
class NotifierEnvironment:
    """A receiver that is still empty."""

    make: Callable[[], Notifier]
    """Makes notifiers for it, with a time-out of `timeout` or less."""
    received: Callable[[], Sequence[UUID]]
    """Returns the ids of the resources that it was notified of, in order, with repetitions."""
    outage: Callable[[], AbstractContextManager[None]]
    """Makes a context in which the receiver is unreachable."""
    refusal: Callable[[], AbstractContextManager[None]]
    """Makes a context in which the receiver refuses every notification permanently."""
    timeout: float = 2.0


class NotifierConformance(RequiresHooks):
    """One test and more per promise of :class:`Notifier` that a notifier can keep or break."""

    HOOKS: ClassVar[tuple[str, ...]] = ("make_environment", "relevant_changes")

    def make_environment(self) -> AbstractContextManager[NotifierEnvironment]:
        """Return a context with a receiver of its own."""
        raise NotImplementedError("override make_environment(); see the module's docstring")

    def relevant_changes(self) -> Sequence[Change]:
        """Return two or more changes of different resources that the receiver wants."""
        raise NotImplementedError("override `relevant_changes`")

    def all_changes(self) -> list[Change]:
        """Return the relevant changes, and others that may be relevant."""
        created = [samples.change(None, first) for first, *_ in samples.HISTORIES]
        gone = [samples.change(last, None) for *_, last in samples.HISTORIES]
        return [*self.relevant_changes(), *created, *gone]

    @proves(Notifier, 1)
    def test_relevance_is_decided_quickly_and_without_the_receiver(self) -> None:
        with self.make_environment() as at:
            notifier = at.make()
            wanted = [notifier.concerns(change) for change in self.all_changes()]
            assert all(wanted[: len(self.relevant_changes())])
            with at.outage():
                for change, relevant in zip(self.all_changes(), wanted, strict=True):
                    assert notifier.concerns(change) is relevant, change
                    count_calls(partial(notifier.concerns, change), EFFORT)
            assert list(at.received()) == []

    @proves(Notifier, 2)
    def test_a_batch_arrives_as_a_whole_and_in_order(self) -> None:
        with self.make_environment() as at:
            at.make().notify(self.relevant_changes())
            assert _first_of_each(at.received()) == [
                change.ref.id for change in self.relevant_changes()
            ]

    @proves(Notifier, 3)
    def test_a_repeated_notification_is_the_same(self) -> None:
        with self.make_environment() as at:
            at.make().notify(self.relevant_changes())
            once = list(at.received())
            at.make().notify(self.relevant_changes())
            assert list(at.received()) == once * 2

    @proves(Notifier, 4, 5)
    @proves_raise(Notifier, "notify", BackendUnavailable)
    def test_an_unreachable_receiver_is_reported_in_time_and_notified_later(self) -> None:
        with self.make_environment() as at:
            notifier = at.make()
            with at.outage():
                began = time.monotonic()
                with pytest.raises(BackendUnavailable):
                    notifier.notify(self.relevant_changes())
                assert time.monotonic() - began < at.timeout * 2
            notifier.notify(self.relevant_changes())
            expected = {change.ref.id for change in self.relevant_changes()}
            assert set(at.received()) == expected

    @proves(Notifier, 4)
    @proves_raise(Notifier, "notify", NetfwError)
    def test_a_permanent_refusal_of_the_receiver_is_reported(self) -> None:
        with self.make_environment() as at:
            notifier = at.make()
            with at.refusal(), pytest.raises(NetfwError) as refusal:
                notifier.notify(self.relevant_changes())
            assert not refusal.value.retryable


def _first_of_each(ids: Sequence[UUID]) -> list[UUID]:
    return list(dict.fromkeys(ids))


CONTRACTS = (Notifier,)
"""The contracts that the suite tests."""
