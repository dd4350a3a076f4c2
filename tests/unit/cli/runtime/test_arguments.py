"""Wrong arguments: what a program answers, and with which usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from netfw.cli.commands import db, main


def refusal(program: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    run = {"netfw": main.main, "netfw-db": db.main}[program]
    with pytest.raises(SystemExit) as ended:
        run(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "words", "usage"),
    [
        ("netfw", ["demo", "--nosuch"], "netfw demo"),
        ("netfw", ["lab", "up", "--nosuch"], "netfw lab up"),
        ("netfw-db", ["current", "--nosuch"], "netfw-db current"),
        ("netfw", ["--nosuch", "demo"], "netfw"),
    ],
)
def test_an_unknown_argument_is_refused_with_the_usage_of_its_command(
    program: str, words: list[str], usage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(program, words, capsys)
    assert error.startswith(f"usage: {usage} [-h]")
    assert error.endswith(f"{usage}: error: unrecognized arguments: --nosuch\n")


@pytest.mark.parametrize(
    ("program", "words", "similar"),
    [
        ("netfw", ["driver"], "drivers"),
        ("netfw", ["lab", "don"], "down"),
        ("netfw", ["plan", "--agent", "dhpc"], "dhcp"),
        ("netfw-db", ["upgrad"], "upgrade"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_similar_one(
    program: str, words: list[str], similar: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(program, words, capsys).endswith(f", did you mean {similar!r}?\n")


@pytest.mark.parametrize("words", [["--config-file", "one", "current"], ["current"]])
def test_files_may_be_named_before_and_after_the_command_of_netfw_db(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later files win, as everywhere: the second one names the database."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/one.d\n")
    two.write_text(f"[DEFAULT]\nstate_path = {tmp_path}/two.d\n")
    before = [str(one) if word == "one" else word for word in words]
    assert db.main([*before, "--config-file", str(two)]) == 2
    assert f"{tmp_path}/two.d/netfw.db: there is no such file" in capsys.readouterr().err


def test_a_word_like_no_other_is_refused_with_the_possible_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = refusal("netfw", ["xyzzy"], capsys)
    assert "invalid choice: 'xyzzy' (choose from " in error
    assert "did you mean" not in error
