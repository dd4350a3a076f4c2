"""The examples of README.md and of docs/getting-started.md work as printed.

Paths below ``/tmp`` are those of the test: the sandbox separates networks, not files.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from attrs import evolve

from tests.system.tutorials.examples import PYTHON, SHELL, Example, find_example
from tests.system.tutorials.installation import ROOT
from tests.system.tutorials.page import Command
from tests.system.tutorials.reader import Reader

README = ROOT / "README.md"
STARTED = ROOT / "docs" / "getting-started.md"
PLUGGED = "...1. ovsdb: add port {} to br-int...done: 11111111-1111-1111-1111-111111111111\n"
READY = "curl -s --unix-socket {}/tmp/netfw/api.sock http://localhost/readyz"
STOP = "kill $(cat server.pid); wait $(cat server.pid)"

pytestmark = pytest.mark.timeout(900)  # pip, labs and a server, one after another


@pytest.fixture
def clone(reader: Reader) -> Iterator[Reader]:
    """Yield a reader in the clone, with the environment that ``make demo`` creates in it."""
    home = reader.home / "netfw"
    venv = home / ".venv"
    venv.symlink_to(reader.home / "netfw-env")
    (home / "tmp").mkdir(exist_ok=True)
    yield evolve(reader, home=home)
    down = [str(venv / "bin" / "netfw"), "lab", "down", "--all"]  # of an example that failed
    subprocess.run(down, env=reader.environ, check=False, capture_output=True)
    venv.unlink()


def local(clone: Reader, example: Example) -> Example:
    return evolve(example, text=example.text.replace("/tmp/", f"{clone.home}/tmp/"))


def test_readme_example_plugs_a_port_on_a_host_of_the_lab(clone: Reader) -> None:
    script = find_example(README, "An example", PYTHON).as_file("example.py")
    shell = find_example(README, "An example", SHELL)
    command = shell.as_command(f"{PLUGGED.format('tap-web')}...")
    with clone.open_terminal() as terminal:
        terminal.execute(README, [script, command])


def test_getting_started_has_commands_of_the_lab_and_of_drivers(clone: Reader) -> None:
    lab = find_example(STARTED, "A network to try things in", SHELL)
    drivers = find_example(STARTED, "Which drivers are there", SHELL)
    with clone.open_terminal() as terminal:
        terminal.execute(STARTED, [lab.as_command("...2 received, 0% packet loss...")])
        terminal.execute(STARTED, [drivers.as_command("INTERFACE ...SwitchDriver openvswitch...")])


def test_getting_started_program_finds_nothing_to_do_when_repeated(clone: Reader) -> None:
    heading = "The first lines of code"
    script = find_example(STARTED, heading, PYTHON).as_file("tmp/first.py")
    output = f"{PLUGGED.format('tap-1')}nothing to do\nnothing to do\ndone: ...Port tap-1..."
    command = local(clone, find_example(STARTED, heading, SHELL)).as_command(output)
    with clone.open_terminal() as terminal:
        terminal.execute(STARTED, [script, command])


def test_getting_started_server_serves_unchanged_clients(clone: Reader) -> None:
    heading = "A server of your own"
    server = local(clone, find_example(STARTED, heading, SHELL, 0))
    client = local(clone, find_example(STARTED, heading, SHELL, 1))
    background = f"{server.text.rstrip()} 2> server.log &\necho $! > server.pid"
    ready = READY.format(clone.home)
    with clone.open_terminal() as first, clone.open_terminal() as second:
        first.execute(STARTED, [evolve(server, text=background).as_command("...")])
        try:
            steps = [Command(line=0, text=ready, output='{"status": "ready"}', repeated=True)]
            second.execute(STARTED, [*steps, client.as_command('...{"networks":[...blue...')])
        finally:
            first.execute(STARTED, [Command(line=0, text=STOP)])
