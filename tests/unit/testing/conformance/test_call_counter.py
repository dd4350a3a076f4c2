"""The cost of a driver is that of its own calls."""

from __future__ import annotations

import subprocess
import sys

from netfw.testing.conformance.common.call_counter import count_calls, not_counted

THREADS = """
import sys, threading, time
from netfw.testing.conformance.common.call_counter import not_counted

def switch_threads(event, arguments):
    if event == "sys.setprofile":
        time.sleep(0.001)

def work():
    for _ in range(50):
        not_counted(int)

sys.addaudithook(switch_threads)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def step() -> None:
    """Be called."""


def test_calls_of_the_suite_itself_are_not_counted() -> None:
    def work() -> None:
        step()
        not_counted(lambda: [step() for _ in range(1000)])
        step()

    assert count_calls(work, 100) < 20


def test_threads_that_are_not_counted_work_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
