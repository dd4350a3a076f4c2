"""Completion scripts name the commands and options of ``netfw``."""

from __future__ import annotations

import subprocess

import pytest

from netfw.cli.commands.main import main


@pytest.mark.spec("DRV-48")
def test_bash_completes_commands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = """
COMP_WORDS=(netfw %s); COMP_CWORD=%d; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
_shtab_netfw; printf '%%s\\n' "${COMPREPLY[@]}"
"""
    for words, expected in {"tra": "trace", "trace --verb": "--verbose"}.items():
        command = script + ask % (words, len(words.split()))
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
        assert expected in done.stdout.split()


def test_an_unknown_shell_is_refused_with_those_that_are_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "fish"])
    assert "bash" in capsys.readouterr().err
