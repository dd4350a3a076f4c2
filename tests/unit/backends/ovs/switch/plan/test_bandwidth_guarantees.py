"""Plans of guaranteed bandwidth."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from attrs import evolve

from netfw.drivers.values.keys import PortKey
from netfw.drivers.values.switch_values import Bandwidth
from netfw.errors import ConfigError
from netfw.linux.tc.values import ClassFilter, DeviceTraffic, TrafficClass, source_program
from netfw.model.values.address import Mac
from netfw.ovs.ovsdb.values import Interface, OvsdbPort, Snapshot, Switch
from netfw_drivers.ovs.switch.driver import OvsSwitchDriver
from netfw_drivers.ovs.switch.options import settings_from
from netfw_drivers.ovs.switch.plan.bandwidth_guarantees import (
    HANDLE,
    OTHERS,
    WHOLE,
    Guarantee,
    GuaranteePlan,
    plan_guarantees,
)
from tests.unit.backends.ovs.switch.samples import SETTINGS, port_key

pytestmark = pytest.mark.spec("L2-80")
HOST = evolve(SETTINGS, bandwidths={"br-ex": Bandwidth(egress=100_000)})
UNUSED = DeviceTraffic(kind="mq")
KEY = port_key(1)


def snapshot(*devices: str, kind: str = "") -> Snapshot:
    """Return one port of ``br-ex`` with these devices, and the link to ``br-int``."""
    names = {"nic": devices, "phy-br-ex": ("phy-br-ex",)}
    ports = {
        name: OvsdbPort(
            uuid=UUID(int=0),
            name=name,
            bridge="br-ex",
            interfaces=tuple(
                Interface(uuid=UUID(int=0), name=each, type=kind) for each in interfaces
            ),
        )
        for name, interfaces in names.items()
        if interfaces
    }
    return Snapshot(switch=Switch(uuid=UUID(int=0)), ports=ports)


def guarantee(number: int, kbps: int = 60_000) -> Guarantee:
    mac = Mac(f"fa:16:3e:00:00:{number:02x}")
    return Guarantee(bridge="br-ex", number=number, mac=mac, vlan=7, kbps=kbps)


def plan(
    wanted: Mapping[PortKey, Guarantee],
    traffic: DeviceTraffic | None = UNUSED,
    shown: Snapshot | None = None,
    *,
    datapath: str = "netdev",
    removable: bool = True,
) -> GuaranteePlan:
    found = {} if traffic is None else {"eth1": traffic}
    settings = evolve(HOST, datapath_type=datapath)
    shown = snapshot("eth1") if shown is None else shown
    return plan_guarantees(wanted, shown, found, settings, lambda _: removable)


def texts(planned: GuaranteePlan) -> list[str]:
    stages = (*planned.puts, *planned.removals)
    return [operation.text for stage in stages for operation in stage.operations]


def lines(planned: GuaranteePlan) -> str:
    stages = (*planned.puts, *planned.removals)
    return "\n".join(str(operation.payload) for stage in stages for operation in stage.operations)


def htb(*classes: tuple[int, int], limit: int | None = 46) -> DeviceTraffic:
    """Return netfw's queueing discipline with classes of these numbers and rates."""
    others = 100_000 - sum(kbps for _, kbps in classes)
    made = {
        number: TrafficClass(minor=number, parent=WHOLE, kbps=kbps, ceil_kbps=100_000, limit=limit)
        for number, kbps in (*classes, (OTHERS, others))
    }
    made[WHOLE] = TrafficClass(minor=WHOLE, kbps=100_000, ceil_kbps=100_000)
    filters = {
        number: ClassFilter(
            minor=number, priority=1, program=source_program(guarantee(number).mac, 7)
        )
        for number, _ in classes
    }
    return DeviceTraffic(kind="htb", handle=HANDLE, classes=made, filters=filters)


def test_a_device_without_guarantees_is_left_alone() -> None:
    for traffic in (UNUSED, None, DeviceTraffic(kind="htb", handle=1)):
        assert plan({}, traffic) == GuaranteePlan()


def test_the_first_guarantee_makes_classes_and_what_is_there_needs_nothing() -> None:
    assert texts(plan({KEY: guarantee(1)})) == [
        "eth1: add root class",
        "eth1: guarantee 60000 kbit/s to fa:16:3e:00:00:01 by class 1",
    ]
    assert texts(plan({KEY: guarantee(1)}, htb((1, 60_000)))) == []


def test_the_last_guarantee_takes_all_classes_with_it() -> None:
    assert texts(plan({}, htb((1, 60_000)))) == ["eth1: remove all classes"]
    assert texts(plan({}, htb((1, 60_000)), removable=False)) == []
    both = htb((1, 60_000), (2, 10_000), limit=30)
    assert texts(plan({KEY: guarantee(1)}, both))[-1] == "eth1: remove class 2"


@pytest.mark.parametrize(
    ("shown", "traffic", "reason"),
    [
        (snapshot("eth1", "eth2"), UNUSED, "one device of the kernel on br-ex, .* eth1, eth2"),
        (snapshot("eth1", kind="dpdk"), UNUSED, "one device of the kernel on br-ex, .* none"),
        (snapshot("eth1"), None, "eth1 of br-ex is not in the network namespace"),
        (snapshot("eth1"), DeviceTraffic(kind="tbf", handle=1), "tbf 1: of another owner"),
        (snapshot("eth1"), DeviceTraffic(kind="htb", handle=1), "htb 1: of another owner"),
    ],
)
def test_a_guarantee_that_cannot_be_kept_is_refused(
    shown: Snapshot, traffic: DeviceTraffic | None, reason: str
) -> None:
    planned = plan({KEY: guarantee(1)}, traffic, shown)
    with pytest.raises(Exception, match=reason):
        raise planned.refused[KEY]
    assert texts(planned) == []


def test_the_port_that_came_last_is_refused_if_the_device_has_too_little() -> None:
    wanted = {port_key(1): guarantee(1), port_key(2): guarantee(2)}
    planned = plan(wanted, htb((2, 60_000)))
    assert list(planned.refused) == [port_key(1)]
    assert "only 40000 are not guaranteed" in str(planned.refused[port_key(1)])
    unknown = plan({KEY: guarantee(1)}, htb((9, 60_000)), removable=False)
    assert list(unknown.refused) == [KEY], "a class of a port that is kept counts"


def test_queues_of_a_switch_in_userspace_share_its_send_buffer() -> None:
    def made(count: int, **more: str) -> str:
        wanted = {port_key(n): guarantee(n, 100) for n in range(1, count + 1)}
        return lines(plan(wanted, **more))

    assert "pfifo limit 46'" in made(1)
    assert "pfifo limit 30'" in made(2)
    assert "pfifo limit 10'" in made(40)
    assert "pfifo" not in made(1, datapath="system")


OPTIONS = {option.dest: option.default for option in OvsSwitchDriver.OPTIONS}


def test_bandwidths_are_read_from_the_options() -> None:
    mapped = {**OPTIONS, "bridge_mappings": {"a": "br-a", "b": "br-b"}}
    given = {**mapped, "resource_provider_bandwidths": ["br-a:1000:2000", "br-b:1000:"]}
    assert settings_from(given).bandwidths == {
        "br-a": Bandwidth(egress=1000, ingress=2000),
        "br-b": Bandwidth(egress=1000),
    }


@pytest.mark.parametrize(
    "text", ["br-x:1:1", "br-a", "br-a:1", "br-a:x:1", "br-a:-1:1", "br-a:1:1:1"]
)
def test_wrong_bandwidths_are_refused(text: str) -> None:
    given = {**OPTIONS, "bridge_mappings": {"a": "br-a"}, "resource_provider_bandwidths": [text]}
    with pytest.raises(ConfigError, match="resource_provider_bandwidths: "):
        settings_from(given)
