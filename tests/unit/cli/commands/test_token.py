"""``netfw token``: what is probably not meant is said, and what cannot be is refused."""

from __future__ import annotations

import pytest

from netfw.cli.commands.main import main


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--project", "red", "--role", "emperor"], "'emperor' may do nothing unless"),
        (["--project", "red", "--role", "membre"], "did you mean 'member'"),
        (["--role", "member"], "without --project the token is refused"),
        (["--project", "red", "--until", "2020-01-31"], "expired already"),
    ],
)
def test_what_is_probably_not_meant_is_said_and_done(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "alice", *words]) == 0
    heard = capsys.readouterr()
    assert message in heard.err
    assert heard.out.startswith("nfw_")


def test_what_is_meant_goes_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["token", "ops", "--role", "admin"]) == 0
    assert main(["token", "nova", "--role", "service", "--project", "services"]) == 0
    assert "netfw token:" not in capsys.readouterr().err


def test_a_time_that_is_none_is_refused_with_one_that_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["token", "alice", "--until", "yesterday"])
    assert "'yesterday' is no time such as 2027-01-31" in capsys.readouterr().err
