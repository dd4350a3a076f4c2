"""The recording of the demo: pure rendering, and a command on a terminal."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools import record_demo

RECORDING = [
    (0.5, "\x1b[1m1. A step\x1b[0m"),
    (0.5, "   \x1b[32mok    \x1b[0m a <check> & more"),
    (20.0, ""),
    (20.5, "x" * 300),
]
SVG = "{http://www.w3.org/2000/svg}"


def test_waits_are_shortened_and_order_is_kept() -> None:
    assert record_demo.shown_at(RECORDING) == [0.5, 0.5, 2.0, 2.5]


def test_the_svg_has_each_line_cut_to_its_width() -> None:
    root = ElementTree.fromstring(record_demo.render_svg(RECORDING))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts == ["1. A step", "   ok     a <check> & more", "x" * record_demo.COLUMNS]
    classes = [span.get("class") for span in root.iter(f"{SVG}tspan")]
    assert classes == ["b", "g"]


def test_frames_end_with_the_last_line_at_the_bottom() -> None:
    picture = record_demo.render_svg(RECORDING)
    frames = re.findall(r"([\d.]+)% { transform: translateY\((-?\d+)px\)", picture)
    shares = [float(share) for share, _ in frames]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert int(frames[-1][1]) == (record_demo.ROWS - len(RECORDING)) * record_demo.LINE
    assert len(frames) == 5, "lines of one moment appear together"


def test_the_page_has_the_text_without_attributes() -> None:
    page = record_demo.render_page(RECORDING)
    assert "\n1. A step\n   ok     a <check> & more\n" in page
    assert "\x1b" not in page


def test_a_command_is_recorded_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    lines = record_demo.record([sys.executable, "-c", "import os; print('a'); print(os.isatty(1))"])
    assert [line for _, line in lines] == ["a", "True"]
    assert capsys.readouterr().out == "a\nTrue\n"


def test_a_failed_command_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with status 3"):
        record_demo.record([sys.executable, "-c", "raise SystemExit(3)"])
