"""`netfw demo`, which is what `make demo` runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

NETFW = Path(sys.executable).with_name("netfw")


def marked(mark: str) -> set[int]:
    """Return all processes whose environment has *mark*."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in entry.read_bytes():
                found.add(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.spec("DRV-48", "DRV-22", "FW-01", "FW-03", "FW-04")
def test_every_check_of_the_demo_is_ok() -> None:
    done = subprocess.run([NETFW, "demo"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failed, in " in done.stdout
    assert done.stdout.count("  ok  ") >= 56
    for check in (
        "without a rule, port 80 of blue2 cannot be reached",
        "with the rule, blue1 connects to blue2",
        "the running connection is cut",
        "red1 on host1 pings red2 on host2, through security groups",
        "a killed server costs no packet",
        "an unchanged client shows both agents",
        "the metadata service knows the instance, by a signed id",
        "without any agent, mint1 renews its lease",
        "amber1 on host1 pings violet1 on host2, through the router",
        "SNAT: the outside world sees the gateway's address",
        "the same floating IP now reaches violet1",
        "a killed L3 agent costs no packet",
        "host1 is the standby, host2 stays active",
        "host1 takes over, and amber1 is reached through it",
        "it returns as the standby",
        "amber1 on host1 pings violet1 on host2, through the distributed router",
        "amber1 goes out through the network node: SNAT",
        "host2 has a gateway of its own (fip-); the other hosts have none",
        "traffic between the networks loses no packet",
        "nor does the floating IP, in or out",
        "no namespace, process or file of the router is left on any host",
    ):
        assert f"  ok      {check}" in done.stdout


@pytest.mark.parametrize(
    ("number", "inherited"),
    [
        (signal.SIGINT, signal.SIG_DFL),
        (signal.SIGINT, signal.SIG_IGN),
        (signal.SIGKILL, signal.SIG_DFL),  # which no process can ignore
    ],
)
def test_a_demo_that_is_ended_leaves_no_process_behind(
    number: signal.Signals, inherited: signal.Handlers
) -> None:
    mark = f"NETFW_TEST_MARK={uuid4()}"
    name, _, value = mark.partition("=")
    environment = {**os.environ, name: value}
    pipe = subprocess.PIPE
    before = signal.signal(signal.SIGINT, inherited)  # as under nohup, or in a terminal
    try:
        demo = subprocess.Popen([NETFW, "demo"], stdout=pipe, stderr=pipe, env=environment)
    finally:
        signal.signal(signal.SIGINT, before)
    with demo:
        assert demo.stdout is not None
        while b"Plug an instance" not in demo.stdout.readline():
            assert demo.poll() is None
        assert len(marked(mark)) > 3
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    assert b"Traceback" not in errors
    if number is signal.SIGINT:
        assert errors.endswith(b"netfw demo: interrupted; its hosts and processes end with it\n")
    deadline = time.monotonic() + 60
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not marked(mark)
