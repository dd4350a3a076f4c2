"""Programs of filters, rates, and the text of ``tc``."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netfw.linux.tc.text import parse_traffic, render_class, render_filter
from netfw.linux.tc.values import (
    ClassFilter,
    DeviceTraffic,
    Instruction,
    TrafficClass,
    shown_kbps,
    source_program,
)
from netfw.model.values.address import Mac

pytestmark = pytest.mark.spec("L2-80")
MAC = Mac("fa:16:3e:00:00:01")
OTHER = Mac("fa:17:3e:00:00:01")
ANCILLARY = 0xFFFFF000


def frame(source: Mac, tag: int | None = None) -> bytes:
    octets = bytes.fromhex(str(source).replace(":", ""))
    inner = b"\x08\x00" if tag is None else b"\x81\x00" + (0x2000 | tag).to_bytes(2) + b"\x08\x00"
    return bytes(6) + octets + inner + bytes(40)


def matches(program: tuple[Instruction, ...], data: bytes, beside: int | None = None) -> bool:
    """Run the program as the kernel does; *beside* is the tag that is not in the frame."""
    ancillary = {ANCILLARY + 44: beside or 0, ANCILLARY + 48: int(beside is not None)}
    value, at = 0, 0
    while True:
        code, true, false, operand = program[at]
        at += 1
        match code:
            case 0x06:
                return operand != 0
            case 0x15:
                at += true if value == operand else false
            case 0x54:
                value &= operand
            case _:
                size = {0x20: 4, 0x28: 2, 0x30: 1}[code]
                value = ancillary.get(operand, int.from_bytes(data[operand : operand + size]))


@pytest.mark.parametrize("vlan", [None, 7])
def test_a_filter_matches_the_frames_of_its_port(vlan: int | None) -> None:
    program = source_program(MAC, vlan)
    assert matches(program, frame(MAC, vlan))
    assert not matches(program, frame(OTHER, vlan))
    if vlan is not None:
        assert matches(program, frame(MAC), 0x2000 | vlan), "a tag beside the frame"
        assert not matches(program, frame(OTHER), vlan)
        assert not matches(program, frame(MAC, 8))
        assert not matches(program, frame(MAC), 8)
        assert not matches(program, frame(MAC))


@given(st.integers(1, (1 << 31) - 1))
def test_rates_are_rounded_up_by_a_thousandth_at_most(kbps: int) -> None:
    shown = shown_kbps(kbps)
    assert kbps <= shown <= kbps * 1.001
    assert shown_kbps(shown) == shown


CLASSES = """class htb 6e66:ffff root rate 100Mbit ceil 100Mbit burst 1600b cburst 1600b
class htb 6e66:7 parent 6e66:ffff leaf 8003: prio 0 rate 2400Kbit ceil 1Gbit burst 1b cburst 2b
class htb 1:7 parent 1:1 prio 0 rate 1Kbit ceil 1Kbit burst 1b cburst 2b
"""


def test_what_tc_shows_is_read() -> None:
    wanted = ClassFilter(minor=7, priority=2, program=source_program(MAC, None))
    names = ("code", "jt", "jf", "k")
    steps = [dict(zip(names, step, strict=True)) for step in wanted.program]
    options = {"handle": "0x7", "flowid": "6e66:7", "bytecode": {"length": 6, "insns": steps}}
    filters = [
        {"kind": "bpf", "pref": 2},
        {"kind": "bpf", "pref": 2, "options": options},
        {"kind": "u32", "pref": 3, "options": {"fh": "800:"}},
    ]
    qdiscs = [
        {"kind": "htb", "handle": "6e66:", "root": True, "options": {}},
        {"kind": "pfifo", "handle": "8003:", "parent": "6e66:7", "options": {"limit": 46}},
    ]
    found = parse_traffic(json.dumps(qdiscs), CLASSES, json.dumps(filters))
    assert found == DeviceTraffic(
        kind="htb",
        handle=0x6E66,
        classes={
            0xFFFF: TrafficClass(minor=0xFFFF, kbps=100_000, ceil_kbps=100_000),
            7: TrafficClass(minor=7, parent=0xFFFF, kbps=2400, ceil_kbps=1_000_000, limit=46),
        },
        filters={7: wanted},
    )


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ("[]", DeviceTraffic(kind="noqueue")),
        ('[{"kind":"mq","handle":"0:","root":true}]', DeviceTraffic(kind="mq")),
        ('[{"kind":"tbf","handle":"1:","root":true}]', DeviceTraffic(kind="tbf", handle=1)),
    ],
)
def test_defaults_of_the_kernel_differ_from_what_operators_make(
    shown: str, found: DeviceTraffic
) -> None:
    assert parse_traffic(shown, "", "") == found
    assert found.is_default is (found.kind != "tbf")


def test_lines_are_those_of_tc() -> None:
    wanted = TrafficClass(minor=7, parent=0xFFFF, kbps=60_000, ceil_kbps=100_000, limit=46)
    assert [*render_class("eth1", 0x6E66, wanted)] == [
        "class replace dev eth1 parent 6e66:ffff classid 6e66:7 htb rate 60000kbit ceil 100000kbit "
        "burst 7500 cburst 12500 quantum 60000",
        "qdisc replace dev eth1 parent 6e66:7 pfifo limit 46",
    ]
    chosen = ClassFilter(minor=7, priority=1, program=((6, 0, 0, 1),))
    assert render_filter("eth1", 0x6E66, chosen) == (
        "filter replace dev eth1 parent 6e66: protocol all prio 1 handle 0x7 bpf bytecode "
        "'1,6 0 0 1' flowid 6e66:7"
    )
