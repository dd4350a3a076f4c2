"""CommitWatch: notices commits, whichever process made them, and says whom they concern.

One thread for each process, however many agents there are.  It is rung by commits of its own
process and looks at the number of the newest commit every now and then for those of others; when
there are new ones, one statement finds all readers that they concern.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from netfw.drivers.state_source import Cursor
from netfw.errors import BackendError, Conflict
from netfw.server.db import Database, ReadSnapshot, Transaction
from netfw.server.db.journal.journal import Retention

LOG = logging.getLogger(__name__)

Told = Callable[[Cursor, frozenset[str] | None], None]
"""Hears up to where commits were noticed, and which readers they concern; ``None``: anybody."""
Stop = Callable[[], None]

LONGEST_PAUSE = 1.0
"""While the database does not answer, it is asked that often."""


class CommitWatch:
    """Tells of commits, and forgets the old ones.

    Several processes may do so on one database: each tells its own listeners, and forgetting
    twice is forgetting once.
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
        """*debounce*: seconds for which commits are gathered after some were told."""
        self._database, self._retention = database, retention or Retention()
        self._poll, self._debounce, self._tidy = poll, debounce, tidy
        self._pulse = database.head_poller()
        self._wakeup = threading.Event()
        self._telling = threading.RLock()
        self._listeners: dict[object, Told] = {}
        self._seen: Cursor | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        self._pause = poll
        self._tidy_at = time.monotonic() + tidy
        database.on_commit(self.wake)

    def wake(self) -> None:
        """There is a commit.  May be called by anybody at any time."""
        self._wakeup.set()

    def listen(self, told: Told) -> Stop:
        """Tell of all commits from now on, until stopped; after that nothing is told.

        *told* is called in the thread of the watch: it does not wait for long, and does not raise.
        """
        token = object()
        with self._telling:
            if not self._listeners:
                self._begin()
            self._listeners[token] = told
        self.wake()  # it slept longer while nobody listened

        def stop() -> None:
            with self._telling:
                self._listeners.pop(token, None)

        return stop

    def start(self) -> None:
        """Begin, if only to forget; ``listen`` does so by itself."""
        with self._telling:
            if self._thread is None and not self._ended:
                self._thread = threading.Thread(target=self._run, name="commits", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End; nothing is told from now on."""
        with self._telling:
            self._ended = True
            self._listeners.clear()
            thread = self._thread
        self._wakeup.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
            self._pulse.close()

    def _begin(self) -> None:
        """Have commits from now on told; where it is unknown what now is, everything is news."""
        try:
            self._seen = self._database.read(lambda view: view.journal.cursor())
        except BackendError as exc:
            LOG.warning("the database does not say what its newest commit is: %s", exc)
            self._seen = None
        self.start()

    def _run(self) -> None:
        while not self._ended:
            self._wakeup.wait(self._next())
            self._wakeup.clear()
            try:
                self._turn()
            except (BackendError, Conflict) as exc:
                if self._pause < LONGEST_PAUSE:
                    LOG.warning("commits are not noticed until the database answers: %s", exc)
                self._pause = LONGEST_PAUSE
                time.sleep(self._poll)
            except Exception:
                LOG.exception("a defect of the server itself; commits are noticed nevertheless")
                self._pause = LONGEST_PAUSE
            else:
                self._pause = self._poll

    def _next(self) -> float:
        """How long to wait at most."""
        tidy = max(0.0, self._tidy_at - time.monotonic())
        return min(tidy, self._pause) if self._listeners else tidy

    def _turn(self) -> None:
        if self._listeners and self._look():
            time.sleep(self._debounce)
        if time.monotonic() >= self._tidy_at and not self._ended:
            self._tidy_at = time.monotonic() + self._tidy
            if self._database.transaction(self._forget):
                self._tidy_at = time.monotonic() + min(1.0, self._tidy)

    def _look(self) -> bool:
        """Tell what is new; whether there was anything."""
        seen = self._seen
        if self._pulse.newest() == seen:
            return False
        cursor, concerned = self._database.read(lambda view: _news(view, seen))
        with self._telling:
            self._seen = cursor
            for told in tuple(self._listeners.values()):
                told(cursor, concerned)
        return True

    def _forget(self, transaction: Transaction) -> int:
        return transaction.journal.prune(self._retention)


def _news(view: ReadSnapshot, seen: Cursor | None) -> tuple[Cursor, frozenset[str] | None]:
    head = view.journal.head()
    if seen is None or head.epoch != seen.epoch or not head.oldest <= seen.seq <= head.seq:
        return head.cursor, None
    return head.cursor, view.journal.concerned(seen.seq, head.seq)
