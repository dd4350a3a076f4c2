"""The switch listens for every type of tunnel all the time: docs/decisions/0012."""

from ipaddress import ip_address

import pytest
from attrs import evolve

from netfw.model.segment import NetworkType
from netfw.plan import Update
from netfw_drivers.ovs.switch.plan.outline import outline
from netfw_drivers.ovs.switch.plan.settings import Settings
from tests.unit.backends.ovs.switch.samples import SETTINGS, Database, network, rows

WANTED = Update(put=network(1))


@pytest.fixture
def database() -> Database:
    """Return a database that has all rows which the settings require."""
    database = Database()
    work(database, SETTINGS)
    return database


def work(database: Database, settings: Settings) -> list[str]:
    """Converge, and tell what was done to rows of listeners."""
    found = outline(WANTED, database.observed(), settings)
    for stage in (*found.draft.before(), *found.draft.after()):
        database.run(stage.operations)
    return [text for text in rows(found) if "listen-" in text]


def test_a_tunnel_to_the_host_itself_stays(database: Database):
    interface = database.ports["listen-vxlan"].interface
    assert interface.type == "vxlan"
    assert interface.options["remote_ip"] == interface.options["local_ip"] == "192.0.2.1"
    assert work(database, SETTINGS) == []


@pytest.mark.parametrize(
    "settings",
    [
        evolve(SETTINGS, datapath_type="system"),
        evolve(SETTINGS, local_ip=None),
        evolve(SETTINGS, tunnel_types=frozenset({NetworkType.GENEVE})),
    ],
)
def test_a_listener_that_is_not_needed_is_removed(database: Database, settings: Settings):
    assert "remove port listen-vxlan" in work(database, settings)
    assert "listen-vxlan" not in database.ports
    assert work(database, settings) == []


def test_it_moves_with_the_address_of_the_host(database: Database):
    moved = evolve(SETTINGS, local_ip=ip_address("192.0.2.9"))
    assert work(database, moved) == [
        "set Interface listen-vxlan options:remote_ip=192.0.2.9 options:local_ip=192.0.2.9"
    ]


def test_a_foreign_port_with_the_name_of_a_listener_is_left_alone(database: Database):
    ours = database.ports["listen-vxlan"]
    stranger = evolve(ours, external_ids={}, bridge="br-ex")
    database.ports["listen-vxlan"] = stranger
    for settings in (SETTINGS, evolve(SETTINGS, datapath_type="system")):
        assert work(database, settings) == []
        assert database.ports["listen-vxlan"] == stranger
