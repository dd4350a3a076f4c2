"""CommitWatcher: detects commits of any process, and the readers that they concern.

One thread for each process, however many agents there are. Commits of its own process wake it, and
so do those of others where the database sends notices; where it sends none, the number of the
newest commit is polled. When there are new ones, one statement finds all readers that they concern.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from netfw.drivers.state_source import Cursor
from netfw.drivers.support.daemon_thread import start_daemon_thread
from netfw.errors import BackendError, Conflict
from netfw.server.db import Database, ReadSnapshot, Transaction
from netfw.server.db.journal.journal import Retention

LOG = logging.getLogger(__name__)

CommitListener = Callable[[Cursor, frozenset[str] | None], None]
"""Callback with the cursor up to which commits were detected, and the readers they concern;
``None``: all."""
Stop = Callable[[], None]

LONGEST_PAUSE = 1.0
"""Seconds between attempts while the database does not answer, and between polls while notices
arrive."""
SILENCE_SHARE = 0.05
"""Time between two polls, as a part of the time since the last commit."""
IDLE_POLL = 0.2
"""Seconds between polls, at most."""


class CommitWatcher:
    """Announces commits, and deletes old ones from the journal.

    Several processes may do so on one database: each calls its own listeners, and deletion is
    idempotent.
    """

    def __init__(
        self,
        database: Database,
        retention: Retention | None = None,
        *,
        poll: float = 0.05,
        debounce: float = 0.02,
        tidy: float = 60.0,
    ) -> None:
        """Create the watch; *debounce*: seconds for which commits are gathered after an
        announcement."""
        self._database, self._retention = database, retention or Retention()
        self._poll, self._debounce, self._tidy = poll, debounce, tidy
        self._head_poller = database.head_poller()
        self._notices = database.commit_notices(self.wake)
        self._wakeup = threading.Event()
        self._lock = threading.RLock()
        self._listeners: dict[object, CommitListener] = {}
        self._seen: Cursor | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pause = poll
        self._announced_at = time.monotonic()
        self._tidy_at = time.monotonic() + tidy
        database.on_commit(self.wake)

    def wake(self) -> None:
        """Wake the thread after a commit. Thread-safe."""
        self._wakeup.set()

    def listen(self, listener: CommitListener) -> Stop:
        """Announce all commits from now on, until stopped; after that *listener* is not called.

        *listener* runs in the thread of the watch: it neither blocks for long nor raises.
        """
        token = object()
        with self._lock:
            if not self._listeners:
                self._start_at_head()
            self._listeners[token] = listener
        self.wake()  # it slept longer while there were no listeners

        def stop() -> None:
            with self._lock:
                self._listeners.pop(token, None)

        return stop

    def start(self) -> None:
        """Start the thread without listeners, to delete old commits; ``listen`` starts it too."""
        with self._lock:
            if self._thread is None and not self._closed:
                self._thread = start_daemon_thread("commits", "commits cannot be read", self._run)
                self._notices.start()

    def close(self) -> None:
        """Stop; no listener is called from now on."""
        with self._lock:
            self._closed = True
            self._listeners.clear()
            thread = self._thread
        self._wakeup.set()
        self._notices.close()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            self._head_poller.close()

    def _start_at_head(self) -> None:
        """Start at the newest commit; if that is unknown, everything is new."""
        try:
            self._seen = self._database.read(lambda view: view.journal.cursor())
        except BackendError as exc:
            LOG.warning("commit watch: the newest commit is unknown: %s", exc)
            self._seen = None
        self.start()

    def _run(self) -> None:
        while not self._closed:
            self._wakeup.wait(self._next())
            self._wakeup.clear()
            try:
                self._turn()
            except (BackendError, Conflict) as exc:
                if self._pause < LONGEST_PAUSE:
                    LOG.warning("commit watch: the database does not answer: %s", exc)
                self._pause = LONGEST_PAUSE
                time.sleep(self._poll)
            except Exception:
                LOG.exception("commit watch: internal error; continuing")
                self._pause = LONGEST_PAUSE
            else:
                self._pause = self._poll_interval()

    def _poll_interval(self) -> float:
        """Return the seconds until the next poll, if nothing wakes the thread before."""
        if self._notices.arrive:
            return max(self._poll, LONGEST_PAUSE)
        silence = time.monotonic() - self._announced_at
        return max(self._poll, min(silence * SILENCE_SHARE, IDLE_POLL))

    def _next(self) -> float:
        """Return the longest time to wait."""
        tidy = max(0.0, self._tidy_at - time.monotonic())
        return min(tidy, self._pause) if self._listeners else tidy

    def _turn(self) -> None:
        if self._listeners and self._announce_new():
            time.sleep(self._debounce)
        if time.monotonic() >= self._tidy_at and not self._closed:
            self._tidy_at = time.monotonic() + self._tidy
            if self._database.transaction(self._delete_old):
                self._tidy_at = time.monotonic() + min(1.0, self._tidy)

    def _announce_new(self) -> bool:
        """Announce new commits; return whether there were any."""
        seen = self._seen
        if self._head_poller.newest() == seen:
            return False
        self._announced_at = time.monotonic()
        cursor, concerned = self._database.read(lambda view: _new_commits(view, seen))
        with self._lock:
            self._seen = cursor
            for listener in tuple(self._listeners.values()):
                try:
                    listener(cursor, concerned)
                except Exception:  # the others are told nonetheless
                    LOG.exception("commit watch: a listener failed")
        return True

    def _delete_old(self, transaction: Transaction) -> int:
        return transaction.journal.prune(self._retention)


def _new_commits(view: ReadSnapshot, seen: Cursor | None) -> tuple[Cursor, frozenset[str] | None]:
    head = view.journal.head()
    if seen is None or head.epoch != seen.epoch or not head.oldest <= seen.seq <= head.seq:
        return head.cursor, None
    return head.cursor, view.journal.concerned(seen.seq, head.seq)
