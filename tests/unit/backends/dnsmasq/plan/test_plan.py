"""What the driver plans, from values alone."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from netfw.drivers.values.keys import NetworkKey, PortKey
from netfw.errors import InvalidInput
from netfw.linux.fs.atomic_files import RemoveFile, WriteFile
from netfw.model.values.dhcp_option import DhcpOption
from netfw.plan import Update
from netfw.testing.conformance.dhcp.factories import ServedNetwork, a_subnet, make_network, wanted
from netfw_drivers.dnsmasq.config.file_parsers import (
    HostEntry,
    Lease,
    find_leases,
    read_host,
    read_leases,
    render_leases,
    render_tombstone,
    without_leases,
)
from netfw_drivers.dnsmasq.plan.observed import FoundNetwork, Observed, Reload
from netfw_drivers.dnsmasq.plan.plan import plan_dhcp
from netfw_drivers.dnsmasq.plan.reload import BULK
from netfw_drivers.dnsmasq.plan.steps import (
    DropPort,
    ForgetLeases,
    MarkReload,
    PutNetwork,
    PutPort,
    ReleaseLease,
    RemoveTombstone,
    RunServer,
    SeedLeases,
    SignalServer,
    StopServer,
)
from tests.unit.backends.dnsmasq.plan.samples import (
    CONFS,
    TERMS,
    a_lease,
    found_network,
    planned,
    stages,
    texts,
)

NTP = (DhcpOption(name="42", value="10.0.0.9"),)


def test_a_new_network_gets_its_station_then_its_files_then_its_process() -> None:
    net = make_network()
    port = net.tenant()
    plan = planned(Observed(), net, port)
    backends = [stage.backend.split("/")[0] for stage in plan.stages]
    assert backends[0] == "netns"
    assert backends[-2:] == ["files", "dnsmasq"]
    files = [operation.payload for operation in plan.stages[-2].operations]
    assert [type(step) for step in files] == [PutNetwork, PutPort, SeedLeases]
    assert not plan.waiting
    assert not plan.refused


def test_nothing_is_planned_for_what_is_there() -> None:
    net = make_network()
    port = net.tenant()
    assert not planned(found_network(net, port), net, port)


def test_a_new_port_is_one_step() -> None:
    net = make_network()
    more = net.tenant(30)
    (stage,) = planned(found_network(net, net.tenant(20)), more).stages
    (operation,) = stage.operations
    assert operation.owners == {more.key}
    assert isinstance(operation.payload, PutPort)
    directory = CONFS / str(net.id)
    written = {change.path for change in operation.payload.changes()}
    assert written == {
        str(directory / "host" / str(more.port)),
        str(directory / "addn_hosts" / str(more.port)),
    }


def test_a_port_without_its_network_waits() -> None:
    net = make_network()
    port = net.tenant()
    plan = planned(Observed(), port)
    assert not plan
    assert plan.waiting.keys() == {port.key}


def test_a_network_that_comes_brings_the_ports_that_waited() -> None:
    net = make_network()
    port = net.tenant()
    observed = Observed(networks={net.id: FoundNetwork(desired_ports={port.port: port.value})})
    assert PutPort in stages(planned(observed, net))


def test_a_dropped_port_gets_a_tombstone_and_its_lease_is_given_back() -> None:
    net = make_network()
    port, other = net.tenant(20), net.tenant(30)
    leases = a_lease(port) + a_lease(other)
    plan = planned(found_network(net, port, other, leases=leases), drop=[port])
    drop, release = (operation.payload for operation in plan)
    assert isinstance(drop, DropPort)
    tomb, *gone = drop.changes()
    assert tomb == WriteFile(
        str(CONFS / str(net.id) / "host" / f"{port.port}.gone"),
        f"{port.mac},tag:!none,ignore\n# {port.ip}\n",
    )
    assert all(isinstance(change, RemoveFile) for change in gone)
    assert isinstance(release, ReleaseLease)
    assert release.lease.address == port.ip
    assert release.text == f"dhcp_release {TERMS.device_name(net.value.server.id)} " + (
        f"{port.ip} {port.mac} 01:{port.mac}"
    )


def test_a_tombstone_with_a_lease_is_enough_to_give_it_back() -> None:
    net = make_network()
    port = net.tenant()
    observed = found_network(net, tombs=[port], leases=a_lease(port))
    assert stages(planned(observed, drop=[port])) == [ReleaseLease]
    assert not planned(found_network(net, tombs=[port]), drop=[port])


def test_lease_is_removed_from_the_file_while_dnsmasq_is_stopped() -> None:
    net = make_network()
    port = net.tenant()
    observed = found_network(net, port, leases=a_lease(port), runs=False)
    assert stages(planned(observed, drop=[port])) == [DropPort, ForgetLeases]


def test_an_address_that_dnsmasq_remembers_is_reused_by_reading_everything_anew() -> None:
    net = make_network()
    former, successor = net.tenant(20), net.tenant(20)
    (files, process) = planned(found_network(net, tombs=[former]), successor).stages
    kinds = [type(operation.payload) for operation in files.operations]
    assert kinds == [MarkReload, PutPort, RemoveTombstone]
    assert isinstance(process.operations[0].payload, SignalServer)
    together = planned(found_network(net, former), successor, drop=[former])
    assert stages(together) == [MarkReload, PutPort, DropPort, SignalServer]


def test_a_tombstone_that_is_in_the_way_goes_by_reading_everything_anew() -> None:
    # dnsmasq also remembers the addresses and tags of a client that is gone.
    net = make_network()
    former, special = net.tenant(20), net.tenant(20, options=NTP)
    for tomb, step in ((former, SignalServer), (special, RunServer)):
        for successor in (net.tenant(30, mac=tomb.mac), evolve(net.tenant(30), port=tomb.port)):
            steps = stages(planned(found_network(net, tombs=[tomb]), successor))
            assert steps == [MarkReload, PutPort, RemoveTombstone, step]
    successor = net.tenant(30, mac=former.mac)
    together = planned(found_network(net, former), successor, drop=[former])
    assert stages(together) == [MarkReload, PutPort, DropPort, SignalServer]


def test_a_changed_port_gives_back_what_it_lost_and_keeps_the_rest() -> None:
    net = make_network()
    port = net.tenant(20)
    moved = port.but(fixed_ips=(evolve(port.value.fixed_ips[0], address=port.ip + 1),))
    observed = found_network(net, port, leases=a_lease(port))
    assert stages(planned(observed, moved)) == [MarkReload, PutPort, SignalServer, ReleaseLease]
    named = port.but(hostname="called-otherwise")
    assert ReleaseLease not in stages(planned(observed, named))


def test_dnsmasq_is_started_again_where_a_signal_would_kill_it() -> None:
    net = make_network()
    special, port = net.tenant(20, options=NTP), net.tenant(30)
    moved = port.but(fixed_ips=(evolve(port.value.fixed_ips[0], address=port.ip + 1),))
    plan = planned(found_network(net, special, port), moved)
    assert stages(plan) == [MarkReload, PutPort, RunServer]
    mark, _, run = (operation.payload for operation in plan)
    assert isinstance(mark, MarkReload)
    assert mark.method is Reload.RESTART
    assert isinstance(run, RunServer)
    assert run.restart
    gone = found_network(net, port, tombs=[special])
    assert stages(planned(gone, moved))[-1] is RunServer


def test_reload_pending_at_a_crash_is_done_by_the_next_driver() -> None:
    net = make_network()
    for how, step in ((Reload.SIGNAL, SignalServer), (Reload.RESTART, RunServer)):
        assert stages(planned(found_network(net, reload=how), net)) == [step]


def test_another_command_line_needs_another_process_and_no_signal() -> None:
    net = make_network()
    port = net.tenant()
    plan = planned(found_network(net, port, tombs=[net.tenant(30)]), net.but(dns_domain="a.org"))
    steps = stages(plan)
    assert RunServer in steps
    assert SignalServer not in steps
    assert steps[0] is MarkReload, "who is killed now is succeeded by who starts it again"
    assert RemoveTombstone in steps, "who starts anew remembers nobody"


def test_another_address_of_the_server_needs_another_process() -> None:
    net = make_network()
    server = evolve(net.value.server, addresses=net.served_from(9).value.server.addresses)
    assert RunServer in stages(planned(found_network(net), net.but(server=server)))


def test_a_changed_network_concerns_its_ports() -> None:
    net = make_network()
    port = net.tenant()
    plan = planned(found_network(net, port), net.but(dns_domain="a.org"))
    (put,) = [o for o in plan if isinstance(o.payload, PutPort)]
    assert put.owners == {net.key}
    assert "a.org" in put.text


def test_a_full_lease_file_is_not_written_again() -> None:
    net = make_network()
    observed = found_network(net, leases="something\n", runs=False)
    assert SeedLeases not in stages(planned(observed, net))


def test_hostile_text_is_refused_for_its_key_and_the_rest_is_planned() -> None:
    net = make_network()
    bad, good = net.tenant(20, hostname="a\nb"), net.tenant(30)
    plan = planned(found_network(net), bad, good)
    assert plan.refused.keys() == {bad.key}
    assert isinstance(plan.refused[bad.key], InvalidInput)
    assert [o.owners for o in plan] == [{good.key}]
    network = make_network(dns_domain="a\nb")
    plan = planned(Observed(), network, network.tenant())
    assert plan.refused.keys() == {network.key}
    assert not plan.stages


def test_a_refused_network_is_served_on_as_it_was() -> None:
    net = make_network()
    more = net.tenant(40)
    plan = planned(found_network(net, net.tenant()), net.but(dns_domain="a\nb"), more)
    assert plan.refused.keys() == {net.key}
    assert stages(plan) == [PutPort]


def test_a_dropped_network_goes_process_first_and_files_last() -> None:
    net = make_network()
    port = net.tenant()
    plan = planned(found_network(net, port), port, drop=[net])
    assert texts(plan)[0] == f"stop dnsmasq/{net.id}"
    assert texts(plan)[-1] == f"rm -r {CONFS / str(net.id)}"
    assert plan.waiting.keys() == {port.key}


def test_what_a_complete_update_does_not_name_goes() -> None:
    net, other = make_network(), make_network()
    kept, gone = net.tenant(20), net.tenant(30)
    stray = net.subnets[0].cidr[99]
    leases = f"1 aa:bb:cc:00:00:01 {stray} * *\n1 aa:bb:cc:00:00:02 192.168.77.7 * *\n"
    observed = Observed(
        networks={
            **found_network(net, kept, gone, leases=leases).networks,
            **found_network(other).networks,
        },
        port_networks={kept.port: net.id, gone.port: net.id},
    )
    update: Update[Any, Any] = Update(complete=True, keep=frozenset({net.key, kept.key}))
    plan = plan_dhcp(update, observed, TERMS)
    owners = {owner for operation in plan for owner in operation.owners}
    assert owners == {other.key, gone.key}, "those kept are to blame for nothing"
    (release,) = [o.text for o in plan if isinstance(o.payload, ReleaseLease)]
    device = TERMS.device_name(net.value.server.id)
    assert release == f"dhcp_release {device} {stray} aa:bb:cc:00:00:01"


def test_a_network_that_is_kept_is_left_as_it_is() -> None:
    net = make_network()
    port = net.tenant()
    observed = found_network(net, port, reload=Reload.RESTART)
    kept = frozenset(wanted(net, port))
    assert not plan_dhcp(Update(complete=True, keep=kept), observed, TERMS)


def test_restart_is_owned_by_the_ports_that_require_it() -> None:
    net = make_network()
    port, successor = net.tenant(20, options=NTP), net.tenant(20)
    plan = planned(found_network(net, port), successor, drop=[port])
    (run,) = [o for o in plan if isinstance(o.payload, RunServer)]
    assert run.owners == {port.key, successor.key}


def test_leases_are_removed_by_the_started_server() -> None:
    net = make_network()
    special = net.tenant(20, options=NTP)
    moved = special.but(fixed_ips=net.tenant(21).value.fixed_ips)
    plan = planned(found_network(net, special, leases=a_lease(special)), moved)
    assert stages(plan) == [MarkReload, PutPort, RunServer]
    (run,) = [o.payload for o in plan if isinstance(o.payload, RunServer)]
    assert [lease.address for lease in run.forget] == [special.ip]
    off = net.with_subnet(0, enable_dhcp=False)
    plan = planned(found_network(net, special, leases=a_lease(special)), off)
    (run,) = [o.payload for o in plan if isinstance(o.payload, RunServer)]
    assert [lease.address for lease in run.forget] == [special.ip]


def test_a_port_moves_from_network_to_network() -> None:
    net, other = make_network(), make_network()
    port = net.tenant()
    moved = evolve(other.tenant(), port=port.port)
    observed = Observed(
        networks={**found_network(net, port).networks, **found_network(other).networks},
        port_networks={port.port: net.id},
    )
    steps = {o.backend: type(o.payload) for o in planned(observed, moved)}
    assert steps == {f"files/{net.id}": DropPort, f"files/{other.id}": PutPort}


@pytest.mark.slow
def test_very_many_changes_are_read_at_a_start_and_not_before() -> None:
    # dnsmasq answers no request while it reads file by file, and its queue of them is bounded.
    net = make_network(a_subnet(cidr="10.0.0.0/16", gateway=None))
    few, many = ([net.tenant(10 + at) for at in range(count)] for count in (20, BULK + 1))
    assert set(stages(planned(found_network(net), *few))) == {PutPort}
    found = stages(planned(found_network(net), *many))
    assert found[:3] == [MarkReload, StopServer, PutPort]
    assert found[-1] is RunServer
    dropped = planned(found_network(net, *many), drop=many)
    assert stages(dropped)[-1] is RunServer
    drops = [o.payload for o in dropped if isinstance(o.payload, DropPort)]
    assert {drop.tombstone for drop in drops} == {None}


def test_a_server_that_was_ended_in_order_to_be_started_is_started_by_the_next_change() -> None:
    net = make_network()
    ended = found_network(net, runs=False, reload=Reload.RESTART)
    assert stages(planned(ended, net.tenant()))[-1] is RunServer
    died = found_network(net, runs=False)
    assert stages(planned(died, net.tenant())) == [PutPort]


def test_host_entry_in_a_file_is_read_back() -> None:
    net = make_network()
    port = net.tenant(20, options=NTP)
    (shelf,) = [found.files for found in found_network(net, port).networks.values()]
    entry = shelf.entry(port.port)
    assert entry == HostEntry(frozenset({str(port.mac)}), frozenset({port.ip}), tagged=True)
    assert read_host(render_tombstone(entry)) == entry


def test_leases_are_read_and_found() -> None:
    text = (
        "1700000000 fa:16:3e:00:00:01 10.0.0.5 vm 01:fa:16:3e:00:00:01\n"
        "0 fa:16:3e:00:00:02 10.0.0.50 * *\n"
        "duid 00:01:00:01:2a\n"
        "1700000000 T7654321 fd00::5 * 00:03:00:01\n"
        "nonsense\n"
    )
    one, two, six = read_leases(text)
    assert one.client == "01:fa:16:3e:00:00:01"
    assert two.release("tap0") == ("dhcp_release", "tap0", "10.0.0.50", "fa:16:3e:00:00:02")
    assert six == Lease(
        address=six.address, holder="T7654321", client="00:03:00:01", server="00:01:00:01:2a"
    )
    assert six.release("tap0")[0] == "dhcp_release6"
    assert list(find_leases(text, [one.address, six.address])) == [one, six]
    assert without_leases(text, [two.address]) == text.replace(text.splitlines()[1] + "\n", "")
    entry = HostEntry(frozenset({"fa:16:3e:00:00:01"}), frozenset({one.address, six.address}))
    assert render_leases([entry], 9) == "9 fa:16:3e:00:00:01 10.0.0.5 * *\n"
    assert [lease.address for lease in read_leases(render_leases([entry], 0))] == [one.address]


def test_port_and_network_keys_with_one_id_are_distinguished() -> None:
    net: ServedNetwork = make_network()
    observed = found_network(net)
    update: Update[Any, Any] = Update(drop=frozenset({PortKey(net.id)}))  # type: ignore[arg-type]
    assert not plan_dhcp(update, observed, TERMS)
    assert wanted(net).keys() == {NetworkKey(net.id)}


def test_value_of_another_key_is_refused_and_the_rest_is_planned() -> None:
    net = make_network()
    port = net.tenant()
    swapped: Update[Any, Any] = Update(put={net.key: net.value, port.key: net.value})
    plan = plan_dhcp(swapped, Observed(), TERMS)
    assert {key: type(error) for key, error in plan.refused.items()} == {port.key: InvalidInput}
    assert any(isinstance(operation.payload, PutNetwork) for operation in plan)
