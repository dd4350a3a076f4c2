"""os-ken's defects, seen in an interpreter without the corrections: a corrected one can go."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.real

START = """
import logging
from struct import pack
from os_ken.ofproto import ofproto_parser, ofproto_v1_4_parser as parser
from os_ken.ofproto.ofproto_protocol import ProtocolDesc
logging.disable()
"""
PADDING = """
buf = bytearray()
action = parser.NXActionNAT(flags=1, range_ipv4_min="10.0.0.1")
action.serialize(buf, 0)
print(len(buf) == action.len)
"""
METER = """
data = pack("!HHIH6xHHI", 0xFFFF, 24, 0x2320, 37, 5, 8, 7)
try:
    print(parser.OFPAction.parser(data, 0).meter_id == 7)
except AttributeError:
    print(False)
"""
REPORT = """
event = {event}
full = pack("!HHBBHHH4xQHH4xHHBxxx", 40, event, 0, 0, 0, 0, 5, 7, 1, 4, 1, 8, 9)
body = full if event < 5 else pack("!HH4x", 8, event)
data = pack("!BBHIHH4x", 5, 19, 16 + len(body), 1, 16, 0) + body
read = ofproto_parser.msg(ProtocolDesc(5), 5, 19, len(data), 1, data)
print(read is not None and read.body[0].event == event)
"""


def run(code: str, corrected: bool) -> str:
    first = "import netfw.ovs.osken\n" if corrected else ""
    done = subprocess.run(
        [sys.executable, "-c", first + START + code], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.spec("DRV-49")
@pytest.mark.parametrize(
    "code",
    [PADDING, METER, *(REPORT.format(event=event) for event in (1, 2, 3, 6))],
    ids=["padding", "meter", "added", "removed", "modified", "resumed"],
)
def test_a_correction_is_needed_and_works(code: str) -> None:
    assert run(code, corrected=True) == "True"
    assert run(code, corrected=False) == "False", "os-ken does it by now: this correction can go"


@pytest.mark.parametrize("event", [0, 5])
def test_other_reports_are_read_as_before(event: int) -> None:
    assert run(REPORT.format(event=event), corrected=True) == "True"
