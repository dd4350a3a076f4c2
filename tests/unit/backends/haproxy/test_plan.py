"""What is done to have the wanted proxies: values in, values out."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from uuid import UUID

from attrs import evolve

from netfw.drivers.metadata import MetadataKey, MetadataProxy
from netfw.drivers.values.keys import NetworkKey
from netfw.errors import Conflict, InvalidInput, NotFound
from netfw.linux.sockets.values import Listener, parse_listeners
from netfw.model.values.ids import NetworkId
from netfw.plan import Plan, Update
from netfw_drivers.haproxy.plan import (
    Found,
    Observed,
    ObservedNamespace,
    RunningProxy,
    make_spec,
    plan_proxies,
)
from netfw_drivers.haproxy.settings import Settings

SETTINGS = Settings(socket="/run/metadata", directory=Path("/proxies"))
ANY, METADATA = ip_address("0.0.0.0"), ip_address("169.254.169.254")
ONE, TWO = (NetworkKey(NetworkId(UUID(int=number))) for number in (1, 2))
PROXY = MetadataProxy(netns="one", addresses=(METADATA,))
ELSEWHERE = MetadataProxy(netns="two", addresses=(METADATA,))

START = f"start the proxy of {ONE} in one at 169.254.169.254:80"
END = f"end the proxy of {ONE}, which runs with another configuration"
REMOVE = f"end the proxy of {ONE} and remove its files"
WRITE = f"write the configuration of {ONE} again: it was changed"


def running(key: MetadataKey, proxy: MetadataProxy, *sockets: int) -> Found:
    spec = make_spec(key, proxy, SETTINGS)
    where = RunningProxy(
        digest=spec.program.digest(), namespace=proxy.netns, sockets=frozenset(sockets)
    )
    return Found(where, spec.text)


def listener(inode: int, address=METADATA, port: int = 80) -> Listener:
    return Listener(address=address, port=port, inode=inode)


def machine(found: dict[MetadataKey, Found] | None = None, **listeners: Listener) -> Observed:
    namespaces = {
        name: ObservedNamespace(name, frozenset({listeners[name]} if name in listeners else ()))
        for name in ("one", "two")
    }
    return Observed(settings=SETTINGS, found=found or {}, namespaces=namespaces)


def texts(plan: Plan) -> list[str]:
    return [operation.text for operation in plan]


def test_what_runs_as_it_should_is_left_alone():
    observed = machine({ONE: running(ONE, PROXY, 5)}, one=listener(5))
    assert plan_proxies(Update(put={ONE: PROXY}, complete=True), observed) == Plan()


def test_each_difference_of_the_configuration_is_a_new_process():
    for other in (
        evolve(PROXY, port=81),
        evolve(PROXY, addresses=()),
        evolve(PROXY, device="tap1"),
    ):
        observed = machine({ONE: running(ONE, other, 5)}, one=listener(5, ANY))
        assert texts(plan_proxies(Update(put={ONE: PROXY}), observed)) == [END, START]


def test_other_settings_are_a_new_process_too():
    observed = machine({ONE: running(ONE, PROXY, 5)}, one=listener(5))
    for other in (
        evolve(SETTINGS, maxconn=5),
        evolve(SETTINGS, socket="/elsewhere"),
        evolve(SETTINGS, log_file=Path("/log")),
        evolve(SETTINGS, user="1", group="2"),
    ):
        changed = evolve(observed, settings=other)
        assert texts(plan_proxies(Update(put={ONE: PROXY}), changed)) == [END, START]


def test_a_namespace_that_was_made_anew_needs_a_new_process():
    observed = machine({ONE: running(ONE, PROXY, 5)})
    recreated = evolve(observed, namespaces={"one": ObservedNamespace("another one of that name")})
    assert texts(plan_proxies(Update(put={ONE: PROXY}), recreated)) == [END, START]


def test_a_changed_file_is_written_again_under_the_running_process():
    found = evolve(running(ONE, PROXY, 5), text="meddled with")
    observed = machine({ONE: found}, one=listener(5))
    assert texts(plan_proxies(Update(put={ONE: PROXY}), observed)) == [WRITE]


def test_what_is_left_of_a_dead_one_is_removed_and_what_is_not_there_is_not():
    observed = machine({ONE: Found(text="left"), TWO: Found()})
    remains = machine({ONE: Found(remains=True), TWO: Found()})
    assert texts(plan_proxies(Update(complete=True), remains)) == [REMOVE]
    assert texts(plan_proxies(Update(drop={ONE, TWO}), observed)) == [REMOVE]
    assert texts(plan_proxies(Update(complete=True), observed)) == [REMOVE]
    assert not plan_proxies(Update(complete=True, keep={ONE}), observed)


def test_a_place_that_a_stranger_has_is_a_conflict_and_nothing_is_touched():
    for stranger in (listener(9), listener(9, ANY)):
        plan = plan_proxies(Update(put={ONE: PROXY, TWO: ELSEWHERE}), machine(one=stranger))
        assert isinstance(plan.refused[ONE], Conflict)
        assert "ip netns exec one ss -ltnp" in str(plan.refused[ONE])
        assert [operation.owners for operation in plan] == [{TWO}]


def test_listener_at_another_address_is_no_conflict():
    for other in (listener(9, port=81), listener(9, ip_address("10.0.0.1"))):
        assert texts(plan_proxies(Update(put={ONE: PROXY}), machine(one=other))) == [START]


def test_proxy_that_cannot_move_keeps_its_address_from_others():
    # Another program listens at the new address of one proxy: it stays, and blocks the other proxy.
    observed = machine({ONE: running(ONE, ELSEWHERE, 5)}, one=listener(9), two=listener(5))
    plan = plan_proxies(Update(put={ONE: PROXY, TWO: ELSEWHERE}), observed)
    assert {key: type(error) for key, error in plan.refused.items()} == {
        ONE: Conflict,
        TWO: Conflict,
    }
    assert not plan


def test_places_are_swapped_by_ending_both_first():
    found = {ONE: running(ONE, ELSEWHERE, 5), TWO: running(TWO, PROXY, 6)}
    observed = machine(found, two=listener(5), one=listener(6))
    plan = plan_proxies(Update(put={ONE: PROXY, TWO: ELSEWHERE}), observed)
    assert [text.split()[0] for text in texts(plan)] == ["end", "end", "start", "start"]


def test_what_cannot_be_is_refused_for_its_key():
    lost = evolve(PROXY, netns="three")
    homeless = evolve(PROXY, addresses=(ip_address("fe80::1"),))
    plan = plan_proxies(Update(put={ONE: lost, TWO: homeless}), machine())
    assert {key: type(error) for key, error in plan.refused.items()} == {
        ONE: NotFound,
        TWO: InvalidInput,
    }
    assert not plan


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: FEA9FEA9:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0
   1: 0100007F:0016 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0
"""
TABLE_6 = """\
  sl  local_address                         remote_address                        st
   0: 000080FE0000000000000000FEA9FEA9:2711 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 8
"""


def test_a_table_of_the_kernel_is_read():
    assert list(parse_listeners(TABLE)) == [
        Listener(address=METADATA, port=80, inode=4711),
    ]
    assert list(parse_listeners(TABLE_6)) == [
        Listener(address=ip_address("fe80::a9fe:a9fe"), port=10001, inode=8),
    ]
