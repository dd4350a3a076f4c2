"""Standard output that other processes write to as well."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from subprocess import DEVNULL

import pytest

from netfw.testing.conformance.watch.process_state import is_output_shared


@contextmanager
def short_lived_processes():
    """Run one process after another, whose output goes elsewhere."""
    ended = threading.Event()

    def run():
        while not ended.is_set():
            subprocess.run(["true"], stdout=DEVNULL, stderr=DEVNULL, check=True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_processes_that_end_meanwhile_are_not_an_error():
    with short_lived_processes():
        for _ in range(100):
            is_output_shared()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_of_another_process_is_noticed(stream):
    lines = [
        "import os, subprocess, sys",
        "from netfw.testing.conformance.watch.process_state import is_output_shared",
        "before = is_output_shared()",
        f"other = subprocess.Popen(['sleep', '60'], {stream}=2)",
        "during = is_output_shared()",
        "other.kill()",
        "other.wait()",
        "print(before, during, is_output_shared())",
    ]
    program = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout == "False True False\n"
