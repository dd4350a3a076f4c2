"""Demo section 1: a driver plugs two instances, declared flows connect them, drift is repaired."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from uuid import UUID, uuid5

from attrs import frozen

from netfw import flows as of
from netfw.cli.demo.report import DemoReport
from netfw.cli.runtime.tables import plain_table
from netfw.drivers.interface import Attachment, InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.model.values.address import Mac
from netfw.model.values.ids import PortId
from netfw.ovs.openflow import FlowMirror, FlowPlan, OpenFlow, group_of
from netfw.ovs.ovsdb.client import Ovsdb
from netfw.ovs.ovsdb.operations import AddBridge, OvsdbTable, SetColumns, tunnel_port
from netfw.plan import Outcome, Plan, Update
from netfw.testing.lab.host import Host
from netfw.testing.lab.instance import Instance
from netfw.testing.lab.lab import Lab
from netfw.testing.lab.ping import Ping

BRIDGE, TUNNEL, VNI, COOKIE = "br-int", "vxlan-demo", 77, 0xDE30
DEMO = UUID("9a1c3a04-6d9c-4f0e-8a55-000000000000")

CLASSIFY = of.Table(
    number=0,
    name="classify",
    asks="Did the packet come from our instance, as itself, or out of the tunnel?",
    leads_to=("forward",),
)
FORWARD = of.Table(
    number=60,
    name="forward",
    asks="Is it for our instance, or for a host behind the tunnel?",
)
PIPELINE = of.Pipeline(BRIDGE, (CLASSIFY, FORWARD))

PICTURE = (
    "host1                              host2",
    "+---------------------+            +---------------------+",
    "|  vm1 10.0.0.1       |            |       vm2 10.0.0.2  |",
    "|   |                 |            |                 |   |",
    "|  br-int --- br-phy ---- fabric ---- br-phy --- br-int  |",
    "+---------------------+            +---------------------+",
)


@frozen(kw_only=True)
class DemoHost:
    """One of the two hosts, and its desired state."""

    host: Host
    instance: Instance
    peer: Host
    port: PortId
    wanted: Attachment
    address: str
    ovsdb: Ovsdb
    driver: InterfaceDriver
    switch: OpenFlow
    mirror: FlowMirror

    @property
    def update(self) -> Update[PortId, Attachment]:
        return Update(put={self.port: self.wanted})

    def plan(self) -> Plan:
        """Return the plan of the driver; nothing is changed."""
        assert isinstance(self.driver, Reconciler)
        observed = self.host.call(self.driver.observe, self.update)
        plan: Plan = self.driver.plan(self.update, observed)
        return plan

    def converge(self) -> Outcome[PortId]:
        return self.host.call(self.driver.converge, self.update)

    def flows(self) -> list[of.Flow]:
        """Return the flows of this host: a pure function of two port numbers and a MAC address."""
        ours, tunnel = self._ofport(self.wanted.device), self._ofport(TUNNEL)
        return [
            CLASSIFY.flow(
                of.in_port(ours) & of.eth_src(self.wanted.mac), of.goto(FORWARD), cookie=COOKIE
            ),
            CLASSIFY.flow(of.in_port(tunnel) & of.tun_id(VNI), of.goto(FORWARD), cookie=COOKIE),
            FORWARD.flow(of.eth_dst(self.wanted.mac), of.output(ours), cookie=COOKIE),
            FORWARD.flow(
                of.in_port(ours),
                of.set_tunnel(VNI),
                of.output(tunnel),
                cookie=COOKIE,
                priority=100,
            ),
            FORWARD.flow(
                of.in_port(tunnel) & of.eth_dst("01:00:00:00:00:00/01:00:00:00:00:00"),
                of.output(ours),
                cookie=COOKIE,
            ),
            *PIPELINE.miss_flows(COOKIE),
        ]

    def plan_flows(self) -> FlowPlan:
        """Return what differs between the switch and the flows."""
        flows = self.flows()
        PIPELINE.check(flows)
        self.mirror.wait_current()
        return self.mirror.plan({"demo": group_of(*flows)})

    def connect(self) -> list[str]:
        """Write the flows to the switch; return what differed."""
        plan = self.plan_flows()
        self.mirror.apply(plan)
        return list(plan.changes.lines())

    def _ofport(self, name: str) -> int:
        return self.ovsdb.wait_until(
            lambda now: now.ports[name].interface.ofport if name in now.ports else None,
            f"no OpenFlow port for {name}",
        )


def demo_drivers(report: DemoReport) -> None:
    """Connect an instance on each of two hosts by a driver and a dozen flows."""
    started = time.monotonic()
    with Lab(hosts=2) as lab, ExitStack() as stack:
        sides = _two_sides(lab, stack)
        report.step("A laboratory", _lab_lines(lab, time.monotonic() - started))
        report.quote(PICTURE)
        _plug(report, sides)
        _connect(report, sides)
        _again(report, sides)
        _drift(report, sides)


def _two_sides(lab: Lab, stack: ExitStack) -> tuple[DemoHost, DemoHost]:
    one, two = lab.hosts.values()
    return _side(stack, one, two, 1), _side(stack, two, one, 2)


def _side(stack: ExitStack, host: Host, peer: Host, number: int) -> DemoHost:
    local = stack.enter_context(LocalHostResources())
    ovsdb = stack.enter_context(Ovsdb(host.ovs.remote))
    ovsdb.run([AddBridge(name=BRIDGE, datapath_type="netdev", fail_mode="secure")])
    options = {"integration_bridge": BRIDGE, "ovsdb_connection": host.ovs.remote}
    driver = host.call(create, InterfaceDriver, "openvswitch", options, local)
    switch = host.call(OpenFlow, host.ovs.management(BRIDGE))
    stack.callback(driver.close)
    stack.callback(switch.close)
    name = f"vm{number}"
    return DemoHost(
        host=host,
        peer=peer,
        instance=host.instance(name),
        port=PortId(uuid5(DEMO, name)),
        wanted=Attachment(
            device=f"tap-{name}", mac=Mac(f"fa:16:3e:00:00:0{number}"), mtu=1450, netns=name
        ),
        address=f"10.0.0.{number}",
        ovsdb=ovsdb,
        driver=driver,
        switch=switch,
        mirror=FlowMirror(switch),
    )


def _lab_lines(lab: Lab, seconds: float) -> list[str]:
    lines = [
        f"{host.name}: namespaces of its own, its own Open vSwitch, {host.address} on the fabric"
        for host in lab.hosts.values()
    ]
    return [*lines, f"up in {seconds:.1f} s; nothing of this machine was touched"]


def _plug(report: DemoReport, sides: Sequence[DemoHost]) -> None:
    report.step("Plug an instance on each host", ["first the plan, on " + sides[0].host.name + ":"])
    report.quote(str(sides[0].plan()).splitlines())
    outcomes = [side.converge() for side in sides]
    report.check("both ports are plugged by the driver `openvswitch`", all(o.ok for o in outcomes))
    for side in sides:
        side.instance.device = side.wanted.device
        side.instance.configure([f"{side.address}/24"])
        peer = str(side.peer.address.ip)
        own = str(side.host.address.ip)
        side.ovsdb.run([tunnel_port(BRIDGE, TUNNEL, "vxlan", peer, local_ip=own)])


def _connect(report: DemoReport, sides: Sequence[DemoHost]) -> None:
    one, two = sides
    lost = one.instance.ping(two.address, count=2, timeout=0.3).lost
    report.step("Connect them by declared flows", ["a pipeline is data, and documents itself:"])
    rows = [(str(t.number), t.name, t.asks, ", ".join(t.leads_to) or "-") for t in PIPELINE.tables]
    report.quote(plain_table(("#", "TABLE", "ASKS", "LEADS TO"), rows))
    report.check("before: no ping gets through, as new ports are on the dead VLAN", lost == 2)
    changes = [side.connect() for side in sides]
    for side in sides:
        _admit(side)
    report.say(f"one atomic bundle on {one.host.name}; port 1 is vm1's, port 2 is the tunnel:")
    report.quote(changes[0])
    ping = _ping_until_answered(one, two.address, count=5)
    report.say(f"{one.address} -> {two.address}: {ping.received} of {ping.sent} answered")
    report.check("vm1 on host1 pings vm2 on host2 through VXLAN", ping.lost == 0)
    back = _ping_until_answered(two, one.address, count=3)
    report.check("and vm2 pings vm1", back.lost == 0)


def _admit(side: DemoHost) -> None:
    """Remove the port from the dead VLAN, on which every new port starts."""
    side.ovsdb.run(
        [SetColumns(table=OvsdbTable.PORT, record=side.wanted.device, values={"tag": None})]
    )


def _again(report: DemoReport, sides: Sequence[DemoHost]) -> None:
    report.step("Run it all again", ["the plan of a second run:"])
    plans = [side.plan() for side in sides]
    report.quote(str(plans[0]).splitlines())
    changes = [change for side in sides for change in side.connect()]
    report.check("the second plan is empty, and no flow changes", not any(plans) and not changes)


def _drift(report: DemoReport, sides: Sequence[DemoHost]) -> None:
    one, two = sides
    one.host.ovs.ofctl("del-flows", one.host.ovs.management(BRIDGE), "table=60")
    one.instance.run(["ip", "link", "set", one.wanted.device, "mtu", "1300"])
    commands = "ovs-ofctl del-flows br-int table=60; ip link set ... mtu 1300"
    report.step("Break it by hand", [commands])
    report.check("the ping stops", _falls_silent(one, two.address))
    report.say("the plans know what is wrong, before anything is done about it:")
    report.quote([*str(one.plan()).splitlines(), *_planned_repair(one)])
    one.connect()
    one.converge().raise_failed()
    ping = _ping_until_answered(one, two.address, count=5)
    report.check("converging repairs just that, and the ping is back", ping.lost == 0)
    report.check("and then there is nothing left to do", not one.plan() and not one.connect())


def _ping_until_answered(side: DemoHost, address: str, count: int) -> Ping:
    """Ping until all are answered; the switch revalidates its flow cache after the flows."""
    deadline = time.monotonic() + 10
    while (ping := side.instance.ping(address, count=count)).lost and time.monotonic() < deadline:
        pass
    return ping


def _falls_silent(side: DemoHost, address: str) -> bool:
    """Return whether pings stop; the switch revalidates its flow cache after the flows."""
    deadline = time.monotonic() + 10
    while side.instance.ping(address, count=2, timeout=0.3).received:
        if time.monotonic() > deadline:
            return False
    return True


def _planned_repair(side: DemoHost) -> list[str]:
    deadline = time.monotonic() + 5
    while not (changes := side.plan_flows().changes) and time.monotonic() < deadline:
        time.sleep(0.01)  # until the switch has notified the mirror
    return list(changes.lines())
