"""Mutations of L2 and L3 extensions: each does its work, and misuses the process beside it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from netfw.drivers.agent_extension import AgentExtension
from netfw.drivers.base import Driver
from tests.conformance.common.conduct_mutations import conduct_mutations
from tests.conformance.common.mutations import breaks

WATCHED = conduct_mutations("problems")
"""Mutations of an extension that counts its calls: they do their work, and misuse the process."""


@WATCHED.override("contribute", breaks(AgentExtension, 2))
def sleep_in_contribute(driver, original, key, value, grant):
    """Wait for a service."""
    time.sleep(0.1)
    return original(key, value, grant)


@WATCHED.override("contribute", breaks(AgentExtension, 2))
def read_file_in_contribute(driver, original, key, value, grant):
    """Read the configuration again with each call."""
    Path("/proc/self/comm").read_text()
    return original(key, value, grant)


@WATCHED.override("start_counting", breaks(Driver, 1))
def read_file_when_made(driver, original):
    """Read the configuration when the extension is made."""
    original()
    Path("/proc/self/comm").read_text()


@WATCHED.override("contribute", breaks(Driver, 3))
def leak_thread_in_contribute(driver, original, key, value, grant):
    """Leave a thread with each call."""
    threading.Thread(target=threading.Event().wait, args=(5,), daemon=True).start()
    return original(key, value, grant)


@WATCHED.override("contribute", breaks(Driver, 4))
def print_contribution(driver, original, key, value, grant):
    """Print what is contributed."""
    made = original(key, value, grant)
    print(made)  # noqa: T201
    return made


@WATCHED.override("contribute", breaks(Driver, 6))
def keep_object_in_class(driver, original, key, value, grant):
    """Keep the latest port or router in a variable of the class."""
    type(driver).latest = key
    return original(key, value, grant)
