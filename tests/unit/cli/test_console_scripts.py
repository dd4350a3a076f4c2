"""Every console script tells its version, and each command that prints data has ``--json``."""

from __future__ import annotations

import argparse
import importlib
import io
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from netfw.cli.commands import db
from netfw.cli.commands.main import main
from netfw.cli.runtime.progress import ProgressLine
from netfw.server.db import migration
from netfw.server.db.database import Database
from tests import ROOT
from tools.man_pages import ConsoleScript, command_page, console_scripts

pytestmark = pytest.mark.slow

SCRIPTS = {script.name: script for script in console_scripts()}
WITHOUT_DATA = {
    "netfw completion": "the script of a shell",
    "netfw demo": "a text to be read",
    "netfw lab exec": "the output of another program",
    "netfw lab run": "the output of another program",
    "netfw lab shell": "the output of another program",
    "netfw trace-host": "JSON always",
}
"""Commands without ``--json``, and what they print."""


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield the parsers of commands that have no commands of their own."""
    nested = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not nested:
        yield parser
    for action in nested:
        for below in action.choices.values():
            yield from leaves(below)


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_every_console_script_prints_its_version(
    script: ConsoleScript, capsys: pytest.CaptureFixture[str]
) -> None:
    main_function = getattr(importlib.import_module(script.module), script.function)
    with pytest.raises(SystemExit) as ended:
        main_function(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{script.name} {version('netfw')}\n"


@pytest.mark.spec("DRV-48")
def test_commands_that_print_data_have_json() -> None:
    commands = [
        leaf for name in ("netfw", "netfw-conformance", "netfw-db") for leaf in leaves(parser(name))
    ]
    missing = {
        leaf.prog
        for leaf in commands
        if not any("--json" in action.option_strings for action in leaf._actions)
    }
    assert missing == set(WITHOUT_DATA)


def parser(name: str) -> argparse.ArgumentParser:
    return SCRIPTS[name].parser()


def test_the_page_of_commands_names_each_of_them() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    for name in SCRIPTS:
        for leaf in leaves(parser(name)):
            assert f"`{leaf.prog}`" in page, leaf.prog


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_the_man_page_of_a_script_has_each_of_its_options(script: ConsoleScript) -> None:
    page = command_page(script).replace("\\-", "-")
    assert page.startswith(f".TH {script.name.upper()}")
    for leaf in leaves(script.parser()):
        assert leaf.prog in page
        for action in leaf._actions:
            if not isinstance(action, argparse._HelpAction):
                assert all(option in page for option in action.option_strings)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "server.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{tmp_path}/netfw.db\n")
    return path


def test_netfw_db_prints_json(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> tuple[int, object]:
        status = db.main(["--config-file", str(conf), *words, "--json"])
        return status, json.loads(capsys.readouterr().out)

    newest = migration.newest()
    conf.with_name("netfw.db").touch()
    assert run("current") == (0, {"version": None, "newest": newest})
    assert run("upgrade") == (0, {"version": newest, "newest": newest})
    assert run("check") == (0, {"differences": []})
    assert run("outbox") == (0, {"targets": {}, "failures": []})
    assert run("outbox", "--retry") == (0, {"retried": 0})
    assert run("outbox", "--discard", "nobody") == (1, {"discarded": 0})
    assert run("mark-restored") == (0, {"restored": True})
    assert run("downgrade", "base") == (0, {"version": None, "newest": newest})


def test_a_migration_reports_each_version(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/netfw.db")
    up: list[str] = []
    down: list[str] = []
    migration.upgrade(database, on_step=up.append)
    migration.downgrade(database, "base", down.append)
    database.close()
    assert up[-1] == migration.newest()
    assert down == up[::-1]


def test_a_token_is_one_object_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "ops", "--role", "admin", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["token"].startswith("nfw_")
    assert "ops" in found["line"]
    assert found["token"] not in found["line"]
    assert printed.err == ""


def test_a_new_package_is_described_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["new-driver", "ipam", "acme", "--directory", str(tmp_path), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["directory"] == str(tmp_path / "acme")
    assert "pyproject.toml" in found["files"]
    assert (found["contract"], found["driver"]) == ("IpamDriver", "acme")
    assert found["next"][1] == f"pytest {tmp_path}/acme"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_that_is_erased_at_the_end() -> None:
    terminal = Terminal()
    with ProgressLine(terminal) as progress:
        progress.show("version 0001")
        progress.show("x" * 1000)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[:2] == ["", "version 0001"]
    assert 10 < len(lines[2]) < 1000
    assert lines[3:] == [""]


def test_progress_is_not_written_where_there_is_no_terminal() -> None:
    log = io.StringIO()
    with ProgressLine(log) as progress:
        progress.show("version 0001")
    assert log.getvalue() == ""
