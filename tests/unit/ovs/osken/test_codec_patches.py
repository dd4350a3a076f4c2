"""os-ken's defects, seen in an interpreter without the corrections: a corrected one can go."""

import json
import subprocess
import sys
from functools import cache

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

PROGRAM = """
import json
import logging
from struct import pack
from os_ken.ofproto import ofproto_parser, ofproto_v1_4_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc
logging.disable()


def padding():
    buf = bytearray()
    action = parser.NXActionNAT(flags=1, range_ipv4_min="10.0.0.1")
    action.serialize(buf, 0)
    return len(buf) == action.len


def meter():
    data = pack("!HHIH6xHHI", 0xFFFF, 24, 0x2320, 37, 5, 8, 7)
    try:
        return parser.OFPAction.parser(data, 0).meter_id == 7
    except AttributeError:
        return False


def report(event):
    full = pack("!HHBBHHH4xQHH4xHHBxxx", 40, event, 0, 0, 0, 0, 5, 7, 1, 4, 1, 8, 9)
    body = full if event < 5 else pack("!HH4x", 8, event)
    data = pack("!BBHIHH4x", 5, 19, 16 + len(body), 1, 16, 0) + body
    read = ofproto_parser.msg(ProtocolDesc(5), 5, 19, len(data), 1, data)
    return read is not None and read.body[0].event == event


reports = {f"report {event}": report(event) for event in (0, 1, 2, 3, 5, 6)}
print(json.dumps({"padding": padding(), "meter": meter(), **reports}))
"""
"""What os-ken writes and reads correctly, by name."""


@cache
def outcomes(corrected: bool) -> dict[str, bool]:
    first = "import netfw.ovs.osken\n" if corrected else ""
    argv = [sys.executable, "-c", first + PROGRAM]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    found: dict[str, bool] = json.loads(done.stdout)
    return found


@pytest.mark.spec("DRV-49")
@pytest.mark.parametrize(
    "name", ["padding", "meter", "report 1", "report 2", "report 3", "report 6"]
)
def test_a_correction_is_needed_and_works(name: str) -> None:
    assert outcomes(corrected=True)[name]
    assert not outcomes(corrected=False)[name], "os-ken does it by now: this correction can go"


@pytest.mark.parametrize("event", [0, 5])
def test_other_reports_are_read_as_before(event: int) -> None:
    assert outcomes(corrected=True)[f"report {event}"]
