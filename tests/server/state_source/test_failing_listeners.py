"""A listener of commits that fails keeps none from the others."""

from __future__ import annotations

import threading
from typing import Any, cast
from uuid import uuid4

from netfw.drivers.values.subscription import Service, Subscription
from netfw.model.network import Network
from netfw.model.values.ids import NetworkId
from netfw.server.core.server_context import SERVER, ServerContext
from netfw.server.state_source import CommitWatcher, DatabaseSource


def commit(context: ServerContext) -> None:
    new = Network(id=NetworkId(uuid4()), project_id="p")
    context.run(SERVER, lambda unit: unit.insert(new))


def fail(*_: object) -> None:
    raise RuntimeError("a defect of an embedder")


def test_other_listeners_are_notified_of_the_commit(context: ServerContext) -> None:
    watcher, told = CommitWatcher(context.database), threading.Event()
    watcher.listen(fail)
    watcher.listen(lambda *_: told.set())
    try:
        commit(context)
        assert told.wait(60)
    finally:
        watcher.close()


def test_other_hints_are_given(context: ServerContext) -> None:
    watcher, told = CommitWatcher(context.database), threading.Event()
    nothing: Any = lambda _: None  # noqa: E731
    source = DatabaseSource(
        context.database, watcher, handle_reports=nothing, handle_request=cast(Any, nothing)
    )
    subscription = Subscription("host", {Service.L2})
    source.watch(subscription, fail)
    source.watch(subscription, told.set)
    try:
        source._on_commits(cast(Any, None), None)
        assert told.wait(60)
    finally:
        source.close()
        watcher.close()
