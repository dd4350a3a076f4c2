"""Pings of a process that is scheduled late."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.ping import Pinger
from netfw.testing.lab.wait import wait_until

COUNT = 3


def echo_replies() -> int:
    """Return the number of echo replies that this namespace has received."""
    lines = Path("/proc/self/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Icmp:"))
    return int(dict(zip(names, values, strict=True))["InEchoReps"])


@pytest.mark.spec("DRV-32")
def test_answers_that_arrived_during_a_stall_are_not_lost() -> None:
    sandbox.require()
    before = echo_replies()

    def enough_after_a_stall(sent: int) -> bool:
        if sent == COUNT:
            wait_until(lambda: echo_replies() >= before + COUNT)
        return sent == COUNT

    assert Pinger("127.0.0.1", 0.0).run(enough_after_a_stall, grace=0.0).lost == 0
