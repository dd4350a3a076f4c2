"""Tables on terminals of any width."""

from __future__ import annotations

import sys

import pytest

from netfw.cli.runtime.tables import print_table


@pytest.mark.parametrize("width", [1, 5, 20, 200])
def test_cells_can_be_read_on_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_table(["AGENT", "HOST", "STATE"], [["netfw-ovs-agent", "h1", "dead"]])
    found = capsys.readouterr().out.split()
    assert found[-3:] == ["netfw-ovs-agent", "h1", "dead"]
