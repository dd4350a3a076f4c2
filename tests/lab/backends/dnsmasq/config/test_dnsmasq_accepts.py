"""dnsmasq itself takes every command line and every line that is rendered."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from netfw.drivers.support.dhcp_option_text import render_client_id, render_value
from netfw.drivers.support.dhcp_options import find_option
from netfw_drivers.dnsmasq.config.dhcp_hosts import validate_hostname
from tests import ROOT

GOLDEN = sorted((ROOT / "tests/unit/backends/dnsmasq/config/golden").iterdir())
LETTERS = (
    "0123456789", "0123456789.,", "0123456789abcdef:", "0123456789abcdef:[],.", "-0123456789bsi",
    "abcXYZ.-,", "".join(map(chr, range(32, 127))), "0123456789./,", "a,= #:/'[]{}()*!%",
)  # fmt: skip
WORDS = (
    "10.0.0.1", "10.0.0.0/24", "2001:db8::1", "[2001:db8::1]", "::", "tag:x", "option:router",
    "set:y", "encap:1", "vendor:x", "vi-encap:3", "option6:23", "1", "ff:ff", "a", "ignore",
    "infinite", "12h", "xn--a", "ab--c", "Ab--c", "Web", "conf-file=/x", "dhcp-script=/x",
)  # fmt: skip
CODES = {
    4: ("3", "26", "2", "43", "58", "67", "119", "120", "121", "128", "224", "249", "255"),
    6: ("23", "24", "32", "56", "59", "60", "99"),
}


def sections(path: Path) -> dict[str, list[str]]:
    """Return the parts of a golden text, by their headings."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            lines = found[line.removeprefix("# ")] = []
        else:
            lines.append(line)
    return found


def config_error(tmp_path: Path, options: list[str], argv: list[str] | None = None) -> str:
    """Return what dnsmasq reports about a command line and a configuration."""
    conf = tmp_path / "conf"
    conf.write_text("".join(f"{line}\n" for line in options))
    words = [word for word in (argv or [])[1:] if not word.startswith("--conf-file")]
    done = subprocess.run(
        ["dnsmasq", "--test", *words, f"--conf-file={conf}"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    return done.stderr if done.returncode else ""


@pytest.mark.spec("DHCP-45")
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_text_is_taken(tmp_path: Path, path: Path) -> None:
    rendered = sections(path)
    lines = [
        f"dhcp-option={line}"
        for name in ("opts", "opts/network")
        for line in rendered.get(name, ())
    ]
    lines += [f"dhcp-host={line}" for line in rendered.get("host", ())]
    assert config_error(tmp_path, lines, rendered.get("command")) == ""


def arbitrary(chance: random.Random) -> str:
    if chance.random() < 0.4:
        between = chance.choice(",/: ")
        return between.join(chance.choice(WORDS) for _ in range(chance.randint(1, 4)))
    letters = chance.choice(LETTERS)
    return "".join(chance.choice(letters) for _ in range(chance.choice((1, 3, 8, 20, 60))))


@pytest.mark.spec("DHCP-48")
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_not_refused_is_taken(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = []
    for version, codes in CODES.items():
        for code in codes:
            option = find_option(version, code)
            for _ in range(150):
                try:
                    value = render_value(option, version, arbitrary(chance))
                except ValueError:
                    continue
                lines.append(f"dhcp-option=tag:x,option{version}:{code},{value}")
    for _ in range(1500):
        text = arbitrary(chance)
        for check, word in ((validate_hostname, text), (render_client_id, f"id:{text}")):
            try:
                check(text)
            except ValueError:
                continue
            lines.append(f"dhcp-host=fa:16:3e:00:00:01,tag:!none,{word}")
    assert len(lines) > 1000
    lines = [line.replace("option4:", "") for line in lines]
    assert config_error(tmp_path, lines) == ""
