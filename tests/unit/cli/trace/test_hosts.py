"""Commands that reach the hosts of a trace, and what they may answer."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

from netfw.cli.commands.main import main
from netfw.cli.trace.hosts import HostsByCommand, check_via
from netfw.errors import BackendUnavailable, ConfigError, NotFound, NotSupported

pytestmark = pytest.mark.slow


def hosts(reply: object) -> HostsByCommand:
    """Return a host on which a program answers each request with *reply*."""
    code = f"import sys\nfor _ in sys.stdin: print({json.dumps(reply)!r}, flush=True)"
    return HostsByCommand(["h1"], via=shlex.join([sys.executable, "-c", code]), files=[])


def test_requests_are_answered_by_one_process() -> None:
    with hosts({"answer": [1]}) as made:
        assert made.ask("h1", {"request": "find"}) == [1]
        assert made.ask("h1", {"request": "find"}) == [1]


def test_host_that_was_not_named_is_not_asked() -> None:
    with hosts({}) as made, pytest.raises(NotSupported, match="not among the hosts of --host"):
        made.ask("h2", {})


def test_errors_of_a_host_keep_their_kind() -> None:
    with hosts({"error": "no port", "missing": True}) as made, pytest.raises(NotFound):
        made.ask("h1", {})
    with hosts({"error": "no switch"}) as made, pytest.raises(BackendUnavailable, match="switch"):
        made.ask("h1", {})


@pytest.mark.parametrize("reply", [[], "text", {"other": 1}])
def test_another_program_is_recognised(reply: object) -> None:
    with hosts(reply) as made, pytest.raises(BackendUnavailable, match="something else"):
        made.ask("h1", {})


@pytest.mark.parametrize("via", ["false", "/no/such/command", "sh -c 'echo broken >&2; exit 1'"])
def test_command_that_fails_is_named(via: str) -> None:
    made = HostsByCommand(["h1"], via=via, files=[])
    with made, pytest.raises(BackendUnavailable, match="h1"):
        made.ask("h1", {})


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import time\nwhile True: print('x', end='', flush=True); time.sleep(0.1)", "within 1 s"),
        ("import time\nprint('x' * (33 << 20), flush=True); time.sleep(60)", "larger than 32 MiB"),
        ("print('{}\\n{}', flush=True)\ninput()", "more than one line"),
        ("", "has ended"),
    ],
)
def test_answer_is_bounded_in_time_and_size(code: str, text: str) -> None:
    via = shlex.join([sys.executable, "-c", code])
    timeout = 1 if "within" in text else 60
    made = HostsByCommand(["h1"], via=via, files=[], timeout=timeout)
    with made, pytest.raises(BackendUnavailable, match=text):
        made.ask("h1", {"request": "find"})


@pytest.mark.parametrize("via", ["", "ssh '"])
def test_command_that_is_none_is_refused(via: str) -> None:
    with pytest.raises(ConfigError, match="--via"):
        check_via(via)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--host", "h1"], "--host needs --via or --lab"),
        (["--via", "ssh {host}"], "--host: name the hosts"),
    ],
)
def test_hosts_and_their_command_go_together(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "a", "b", *words]) == 2
    assert text in capsys.readouterr().err
