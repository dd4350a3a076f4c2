"""A page that is wrong fails, with the line that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from netfw.testing.lab import sandbox
from tests.system.tutorials.examples import SHELL, Example, find_example
from tests.system.tutorials.page import Command, FileContent, parse_page
from tests.system.tutorials.shell import TutorialShell

HEAD = "# A page\n\nText.\n\n"


def write_page(directory: Path, text: str) -> Path:
    page = directory / "page.md"
    page.write_text(HEAD + text)
    return page


def follow(directory: Path, text: str) -> None:
    sandbox.require()
    home = directory / "home"
    home.mkdir()
    page = write_page(directory, text)
    with TutorialShell(home, os.environ) as shell:
        shell.execute(page, parse_page(page))


def test_commands_share_a_shell_and_files_are_written_where_it_is(tmp_path: Path) -> None:
    follow(
        tmp_path,
        "```console\n$ mkdir deep && cd deep\n$ word=hello\n```\n\n"
        "<!-- file: say.sh -->\n```sh\necho $1 world\n```\n\n"
        "```console\n$ sh say.sh $word\nhello ...\n$ cat <<END\n> a\n>\n> b\n> END\na\n\nb\n"
        "$ false\n$ echo $?\n1\n```\n",
    )
    assert (tmp_path / "home" / "deep" / "say.sh").read_text() == "echo $1 world\n"


@pytest.mark.parametrize(
    ("lines", "line", "seen"),
    [
        ("$ echo one\none\n$ echo two\nthree", 8, "seen (status 0):\ntwo"),
        ("$ echo loud", 6, "seen (status 0):\nloud"),
        ("$ false", 6, "seen (status 1)"),
        ("$ true\nquiet", 6, "printed on the page:\nquiet"),
        ("$ touch /etc/netfw-tutorial", 6, "Read-only file system"),
    ],
)
def test_wrong_output_status_or_change_of_the_machine_fails_with_its_line(
    tmp_path: Path, lines: str, line: int, seen: str
) -> None:
    with pytest.raises(AssertionError) as raised:
        follow(tmp_path, f"```console\n{lines}\n```\n")
    assert str(raised.value).startswith(f"page.md:{line}: $ ")
    assert seen in str(raised.value)


def test_repeated_command_is_executed_until_its_output_is_as_printed(tmp_path: Path) -> None:
    command = "echo x >> log; wc -l < log"
    follow(tmp_path, f"<!-- repeat -->\n```console\n$ {command}\n3\n```\n")


def test_shell_that_ends_fails_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page.md:6: \$ exit 0\nthe shell ended"):
        follow(tmp_path, "```console\n$ exit 0\n```\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```python\nprint()\n```\n", "line 6: a block of 'python' is not executed"),
        ("```\n$ ls\n```\n", "line 6: a block of '' is not executed"),
        ("```console\nls\n```\n", "line 6: output without a command"),
        ("<!-- repeat -->\n```console\n$ a\n$ b\n```\n", "only a single command"),
    ],
)
def test_blocks_that_would_not_be_executed_are_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_page(write_page(tmp_path, text))


def test_steps_have_their_lines(tmp_path: Path) -> None:
    page = write_page(tmp_path, "<!-- file: a -->\n```ini\n[x]\n```\n\n```console\n$ a\n```\n")
    assert parse_page(page) == [
        FileContent(line=7, name="a", text="[x]\n"),
        Command(line=11, text="a"),
    ]


def test_examples_are_found_by_heading_and_language_and_end_with_the_first_error(
    tmp_path: Path,
) -> None:
    text = "## One\n\n```\na\n```\n\n## Two\n\n```python\nb\n```\n\n```\nfalse\necho c\n```\n"
    page = write_page(tmp_path, text)
    found = find_example(page, "Two", SHELL)
    assert found == Example(line=18, text="false\necho c\n")
    with pytest.raises(AssertionError, match=r"page.md: 1 blocks of '' in 'Two'"):
        find_example(page, "Two", SHELL, 1)
    sandbox.require()
    with (
        pytest.raises(AssertionError, match=r"page.md:18: .*(?s:.*)the shell ended, after:\n$"),
        TutorialShell(tmp_path, os.environ) as shell,
    ):
        shell.execute(page, [found.as_command("...")])
