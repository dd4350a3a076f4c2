"""The units start programs that exist, with files that the samples have."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

from netfw.cli.agents.runner import STUCK_AFTER

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))


def sections(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    return parser


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_unit_starts_a_console_script_and_waits_for_it(path: Path) -> None:
    unit = sections(path)
    service = unit["Service"]
    program, _, conf = service["ExecStart"].split()
    scripts = configparser.ConfigParser()
    scripts.read(ROOT / "entry_points.txt")
    assert Path(program).name == path.stem
    assert path.stem in scripts["console_scripts"]
    assert (ROOT / "samples" / "conf" / Path(conf).name).exists()
    assert service["Type"] == "notify"
    assert service["RestartPreventExitStatus"] == "2"
    assert float(service["WatchdogSec"]) == STUCK_AFTER


def test_there_is_a_unit_for_each_daemon() -> None:
    names = {path.stem for path in UNITS}
    agents = {f"netfw-{kind}-agent" for kind in ("ovs", "dhcp", "l3", "metadata")}
    assert names == {*agents, "netfw-server"}
