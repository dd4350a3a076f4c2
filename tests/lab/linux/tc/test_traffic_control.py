"""Classes of devices on the real kernel."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from netfw.errors import OperationRefused
from netfw.linux.tc.text import render_root
from netfw.linux.tc.traffic_control import apply_traffic, read_traffic
from netfw.linux.tc.values import HTB, TrafficChange
from netfw.testing.lab import sandbox

DEVICE = "phy0"
REMOVAL = f"qdisc del dev {DEVICE} root"


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def kind() -> str:
    found = read_traffic(DEVICE)
    assert found is not None
    return found.kind


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    sandbox.require()
    run("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "phy1")
    yield
    run("ip", "link", "delete", DEVICE)


def add_root(*further: str) -> TrafficChange:
    lines = (render_root(DEVICE, 0x6E66, 1), *further)
    return TrafficChange(device=DEVICE, text="add root class", lines=lines, undo=(REMOVAL,))


def test_change_that_is_refused_in_part_leaves_nothing() -> None:
    before = kind()
    with pytest.raises(OperationRefused):
        apply_traffic(
            add_root(f"class add dev {DEVICE} parent 1234: classid 1234:1 htb rate 1mbit")
        )
    assert kind() == before
    apply_traffic(add_root())
    assert kind() == HTB


@pytest.mark.spec("L2-80")
def test_discipline_that_another_owner_added_meanwhile_stays() -> None:
    run("tc", "qdisc", "add", "dev", DEVICE, "root", "handle", "1:", "pfifo", "limit", "7")
    with pytest.raises(OperationRefused):
        apply_traffic(add_root())
    assert kind() == "pfifo"
