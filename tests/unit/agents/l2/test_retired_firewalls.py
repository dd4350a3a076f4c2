"""Firewall drivers that are not used any more: what they left is removed."""

import pytest
from attrs import evolve

from tests.unit.agents.l2.environment import NET, THERE, port
from tests.unit.agents.l2.firewall_samples import (
    GROUP,
    GUARDED,
    KEY,
    PORT,
    firewall,
    make_environment,
)


@pytest.mark.spec("FW-09")
def test_what_a_retired_driver_left_is_removed_once_the_ports_are_wired():
    old, new = firewall(), firewall()
    env = make_environment(old)
    env.turn()
    env.begin(new, retired=[old])
    new.machine.refused[PORT] = "no room"
    env.turn()
    assert old.machine.present.keys() == {PORT, KEY}
    assert env.status.warnings == {
        "retired firewall driver fake": "its filters are still there until all ports are wired"
    }
    new.machine.refused.clear()
    env.turn(1)
    env.loop.resync()
    assert env.turn().ready
    assert old.machine.present == {}
    assert new.machine.present.keys() == {PORT, KEY}
    assert env.status.warnings == {}


def test_failed_removal_by_a_retired_driver_is_retried():
    old = firewall()
    env = make_environment(old)
    env.turn()
    old.machine.online = False
    env.begin(None, retired=[old])
    assert env.turn().ready
    assert "machine does not answer" in env.status.warnings["retired firewall driver fake"]
    old.machine.online = True
    env.loop.resync()
    env.turn()
    assert old.machine.present == {}


def test_a_dry_run_shows_filters_what_is_refused_and_what_is_retired():
    old, new = firewall(), firewall()
    env = make_environment(old)
    env.turn()
    env.source.put(
        evolve(GROUP, stateful=False, revision=2),
        port(2, NET, THERE, port_security=True, security_groups={GROUP.id}),
    )
    env.begin(new, retired=[old])
    env.turn()
    old.machine.present[PORT] = GUARDED
    parts = {part.name: part for part in env.work.everything()}
    assert set(parts) == {"switch", "firewall"}
    assert parts["firewall"].update.put.keys() == {PORT}
    assert parts["firewall"].update.complete
    assert set(parts["firewall"].refused) == {KEY}


def test_a_dry_run_names_what_retired_drivers_would_remove():
    old = firewall()
    env = make_environment(old)
    env.turn()
    env.begin(None, retired=[old])
    env.work.start()
    parts = {part.name: part for part in env.work.everything()}
    part = parts["retired firewall fake"]
    plan = old.plan(part.update, old.observe(None))
    assert {operation.text for operation in plan} == {f"remove {KEY}", f"remove {PORT}"}
