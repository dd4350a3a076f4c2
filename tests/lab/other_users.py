"""Functions that run as another user of the machine."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable


def run_as(user: int, group: int, work: Callable[[], bytes]) -> bytes:
    """Run *work* in a child process of another user; return its result.

    The child ends here whatever happens: it must not go on with the tests of its parent.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
            os.write(writer, work())
            status = 0
        except BaseException:  # noqa: BLE001 - the parent shows it
            os.write(writer, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as results:
        found = results.read()
    assert os.waitpid(child, 0)[1] == 0, found.decode()
    return found
