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


def test_the_text_scrolls_when_the_screen_is_full() -> None:
    lines = record_demo.ROWS + 2
    picture = record_demo.render_svg([(number // 2, "line") for number in range(lines)])
    frames = re.findall(r"([\d.]+)% { transform: translateY\((-?\d+)px\)", picture)
    shares = [float(share) for share, _ in frames]
    assert shares == sorted(shares)
    assert shares[-1] == 100
    assert len(frames) == lines // 2 + 2, "lines of one moment appear together"
    moves = [int(move) for _, move in frames]
    assert moves == [0] * (len(frames) - 2) + [-2 * record_demo.LINE] * 2


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
