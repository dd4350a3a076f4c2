"""Texts that others chose, on the terminals of operators."""

from __future__ import annotations

import pytest

from netfw.cli.runtime.output import escape_controls, print_error, print_lines
from netfw.cli.runtime.tables import print_table

INJECTIONS = {
    "colour": "web\x1b[31m",
    "title of the window": "web\x1b]0;owned\x07",
    "cursor": "web\x1b[2A\x1b[2K",
    "one character for ESC [": "web\x9b2J",
    "line": "web\nAs desired: it should arrive, and arrives.",
    "return": "web\ris allowed",
    "line of Unicode": "web\u2028is allowed",
    "direction of writing": "web\u202egnp.exe",
    "half a character": "web\ud800",
}


@pytest.mark.parametrize("name", INJECTIONS.values(), ids=INJECTIONS)
def test_control_characters_of_texts_reach_no_terminal(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_lines([f"port {name} is DOWN"])
    print_table(("PORT",), [(name,)])
    found = capsys.readouterr().out.split("\n")
    escaped = name.encode("unicode_escape").decode()
    assert found == [f"port {escaped} is DOWN", "PORT", escaped, ""]
    print_error(f"{name} is unknown")
    shown = capsys.readouterr().err
    assert shown.startswith("netfw: web")
    assert all(line.isprintable() for line in shown.split("\n"))


def test_other_characters_stay_as_they_are() -> None:
    for name in ("web 1", "Netz für Gäste", "网络", "🙂", "back\\slash"):
        assert escape_controls(name) == name
