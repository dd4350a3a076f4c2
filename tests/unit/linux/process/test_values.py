"""Programs, back-off and connections, as values."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from netfw.errors import InvalidInput
from netfw.linux.conntrack import ConntrackTuple, Filter, TrackedConnection
from netfw.linux.process import Backoff, ProcessKey, Program
from netfw.linux.process.identity import matches_command
from netfw.model.values.port_range import PortRange

FLOW = ConntrackTuple(
    protocol=6,
    source=ip_address("10.0.0.1"),
    destination=ip_address("203.0.113.9"),
    source_port=1000,
    destination_port=80,
)
REPLY = ConntrackTuple(
    protocol=6,
    source=ip_address("192.168.0.9"),
    destination=ip_address("10.0.0.1"),
    source_port=8080,
    destination_port=1000,
)
CONNECTION = TrackedConnection(original=FLOW, reply=REPLY, mark=0x11, zone=4, status=0)


def test_the_delay_doubles_up_to_a_limit():
    backoff = Backoff(first=0.5, most=5)
    assert [backoff.delay(deaths) for deaths in (1, 2, 3, 4, 5, 1000)] == [0.5, 1, 2, 4, 5, 5]


@pytest.mark.parametrize("word", ["", "..", ".x", "a/b", "a\n", "x" * 129])
def test_a_key_is_part_of_a_file_name(word):
    with pytest.raises(InvalidInput):
        ProcessKey("service", word)
    with pytest.raises(InvalidInput):
        ProcessKey(word, "id")


@pytest.mark.parametrize(
    "bad",
    [
        {"argv": ()},
        {"argv": ("",)},
        {"argv": ("a", "x\0y")},
        {"argv": ("\ud800",)},
        {"argv": ("a", "\udc80")},
        {"environment": {"": "x"}},
        {"environment": {"A=B": "x"}},
        {"environment": {"A\0": "x"}},
        {"environment": {"A": "x\0"}},
        {"environment": {"A": "\ud800"}},
        {"namespace": "no such"},
        {"namespace": "../x"},
        {"namespace": ""},
        {"namespace": Path("/a\0b")},
        {"user": ""},
        {"user": "root\0"},
        {"user": "\ud800"},
        {"log": Path("/a\0b")},
        {"pid_file": Path("/a\ud800")},
    ],
    ids=repr,
)
def test_a_program_that_could_never_be_started_is_refused_when_it_is_made(bad):
    with pytest.raises(InvalidInput):
        Program(**({"argv": ("a",)} | bad))


def test_arguments_may_be_empty_and_of_any_language():
    Program(argv=("a", "", "ä ö"), environment={"A": "", "B": "ü=\n"}, namespace="qdhcp-1")


def test_own_pid_files_are_no_reason_to_restart_a_program():
    own = Program(argv=("a",), own_pid_files=(Path("/a.pid"),))
    assert Program(argv=("a",)).digest() == own.digest()
    assert Program(argv=("a",)).digest() != Program(argv=("a",), namespace="b").digest()


@pytest.mark.parametrize(
    ("actual", "same"),
    [
        (("dnsmasq", "-x"), True),
        (("/usr/sbin/dnsmasq", "-x"), True),
        (("/bin/sh", "/usr/local/sbin/dnsmasq", "-x"), True),
        (("dnsmasq", "-y"), False),
        (("dnsmasq",), False),
        (("dnsmasq", "-x", "-y"), False),
        (("other", "-x"), False),
        ((), False),
    ],
)
def test_a_command_line_is_known_behind_an_interpreter(actual, same):
    assert matches_command(actual, ("dnsmasq", "-x")) is same


def test_a_process_that_has_lost_its_command_line_runs_nothing() -> None:
    assert not matches_command((), ())


def test_a_program_with_an_environment_can_be_a_key_of_reasons():
    one, same = (Program(argv=("radvd",), environment={"LANG": "C"}) for _ in range(2))
    assert {one: "refused"}[same] == "refused"
    assert one != Program(argv=("radvd",), environment={"LANG": "de"})


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        (Filter(), True),
        (Filter(family=4, zone=4, protocol=6), True),
        (Filter(family=6), False),
        (Filter(zone=0), False),
        (Filter(address=ip_network("192.168.0.0/24")), True),
        (Filter(address=ip_network("192.168.1.0/24")), False),
        (Filter(address=ip_network("fd00::/8")), False),
        (Filter(source=ip_network("10.0.0.1")), True),
        (Filter(source=ip_network("203.0.113.9")), False),
        (Filter(destination_port=80), True),
        (Filter(destination_port=8080), False),
        (Filter(destination_ports=PortRange(79, 80)), True),
        (Filter(destination_ports=PortRange(81, 90)), False),
        (Filter(mark=0x10, mark_mask=0xF0), True),
        (Filter(mark=0x10), False),
    ],
)
def test_a_filter_takes_what_fulfils_all_of_it(wanted, taken):
    assert wanted.takes(CONNECTION) is taken
