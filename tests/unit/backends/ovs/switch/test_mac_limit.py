"""The limit of MAC addresses of ports without anti-spoofing, by value."""

from ipaddress import IPv4Network

import pytest

from netfw.drivers.values.allowed_source import AllowedSource
from netfw.plan import Update
from netfw_drivers.ovs.pipeline import mac_limit
from netfw_drivers.ovs.pipeline.br_tun import LEARNT_FOR
from netfw_drivers.ovs.pipeline.extension_grants import ExtensionLayout
from netfw_drivers.ovs.pipeline.tables import LEARN_MAC
from netfw_drivers.ovs.switch.plan.settings import MAX_MACS_PER_PORT
from tests.unit.backends.ovs.switch.plan_environment import PlanEnvironment
from tests.unit.backends.ovs.switch.samples import wiring

GUARD = frozenset({AllowedSource("fa:16:3e:00:00:01", IPv4Network("10.0.0.1/32"))})


def test_an_address_is_known_learned_or_dropped():
    shared = [str(flow).partition(", ")[2] for flow in mac_limit.base_flows(ExtensionLayout())]
    assert shared == [
        "table=27, priority=2,reg5=0x80000/0x80000 actions=resubmit(,28)",
        "table=28, priority=1,reg5=0x80000/0x80000 actions=resubmit(,30)",
    ]
    flows = mac_limit.port_flows(5, "fa:16:3e:00:00:01", 256)
    assert [str(flow).partition(", ")[2] for flow in flows] == [
        "table=26, priority=2,reg5=0x5/0xffff,dl_src=fa:16:3e:00:00:01 "
        "actions=load:0x1->NXM_NX_REG5[19]",
        "table=27, priority=1,reg5=0x5/0xffff actions=learn(table=26,idle_timeout=310,priority=1,"
        "cookie=0x6e66030000000005,limit=256,result_dst=NXM_NX_REG5[19],NXM_NX_REG5[0..15],"
        "NXM_OF_ETH_SRC[],load:0x1->NXM_NX_REG5[19]),resubmit(,28)",
    ]


def test_a_port_may_not_use_the_place_of_an_address_that_others_remember():
    assert mac_limit.FORGOTTEN_AFTER > LEARNT_FOR


@pytest.mark.parametrize(
    ("values", "is_limited"),
    [
        ({"open": True}, True),
        ({"open": False}, False),
        ({"open": True, "guard": GUARD}, False),
        ({"open": True, "filtered": True}, False),
    ],
    ids=["any address", "own address", "guarded", "filtered"],
)
def test_ports_that_may_send_from_any_address_are_limited(
    populated: PlanEnvironment, values, is_limited
):
    populated.database.plug(1, 5)
    (port,) = populated.do(Update(put=wiring(1, 1, **values))).live.values()
    assert port.mac_limit == (MAX_MACS_PER_PORT if is_limited else 0)
    tables = [key[0] for key in populated.flows["br-int"].observed]
    assert tables.count(LEARN_MAC.number) == 2 + is_limited
