"""What a person is told of a demo that goes wrong: what, why, and what the agents said."""

from pathlib import Path

import pytest

from netfw.cli.demo.report import DemoReport


def test_what_goes_wrong_is_a_check_that_failed_with_its_reason(capsys: pytest.CaptureFixture[str]):
    report = DemoReport()
    with report.section("Metadata: who am I"):
        raise ConnectionRefusedError("nobody listens on 169.254.169.254")
    with report.section("Others"):
        report.check("others go on", True)
    assert report.summary(1) == 1
    output = capsys.readouterr().out
    assert "failed Metadata: ConnectionRefusedError\n     | nobody listens on 169" in output
    assert "Traceback" not in output
    assert "1 ok, 1 failed" in output


def test_agent_warnings_are_printed_where_a_check_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log = tmp_path / "agent.log"
    log.write_text("10:00 INFO all is well\n10:01 WARNING haproxy does not start: exit 1\n")
    report = DemoReport()
    with report.section("Good", [log, tmp_path / "missing"]):
        report.check("it works", True)
    assert "haproxy" not in capsys.readouterr().out
    with report.section("Bad", [log, tmp_path / "missing"]):
        report.check("it works", False)
    output = capsys.readouterr().out
    assert "haproxy does not start: exit 1" in output
    assert "all is well" not in output


def test_keyboard_interrupt_ends_the_demo():
    with pytest.raises(KeyboardInterrupt), DemoReport().section("Any"):
        raise KeyboardInterrupt
