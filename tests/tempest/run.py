"""Run the network API tests of Tempest and of neutron-tempest-plugin against netfw-server.

    python -m tests.tempest.run                 everything
    python -m tests.tempest.run --short         the tests of short.txt alone, in about a minute
    python -m tests.tempest.run --only REGEX    some of them
    python -m tests.tempest.run --update        everything, and both lists are brought up to date

A test of passing.txt that does not pass is an error; the list only grows.  So is a test that
neither passes nor has its reason in not_passing.txt.  The server runs on an SQLite file and
validates tokens with keystonemiddleware against a stand-in for Keystone; an Open vSwitch and real
L2, DHCP and L3 agents make one host of the lab.  All of it runs in a sandbox.  Logs and outcomes
are in .netfw/tempest-run: server.log, l2-agent.log, dhcp-agent.log, l3-agent.log, tempest.conf,
outcomes.json.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from netfw.testing.lab import sandbox
from tests import ROOT
from tests.tempest.cloud import EXTERNAL, Cloud, running_cloud
from tests.tempest.expectations import (
    SHORT,
    Differences,
    Outcome,
    compare,
    parse_outcomes,
    read_expectations,
    read_lines,
    updated,
    write_expectations,
)

HERE = Path(__file__).parent
HOME = ROOT / ".netfw" / "tempest"
EVERYTHING = r"^(tempest\.api\.network|neutron_tempest_plugin\.api)\..*"
ALL, SOME = "tempest/test_discover", "tempest/api/network"


def prepare() -> None:
    """Make the environment of Tempest, unless it is there."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp = HOME / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"preparing {HOME}: Tempest and what it needs (about a minute the first time) ...")
    subprocess.run([sys.executable, "-m", "venv", HOME], check=True)
    pip = [HOME / "bin" / "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", HERE / "requirements.txt"], check=True)
    stamp.write_text(wanted)


def write_tempest_conf(made: Cloud, run: Path, folder: str) -> None:
    """Write the configuration; a small *folder* is searched for tests faster."""
    text = (HERE / "tempest.conf").read_text()
    made.make_default_pools()
    values = {
        "run": run,
        "identity": made.identity,
        "public": made.make_external_network(),
        "external": EXTERNAL,
        "extensions": ",".join(made.extensions()),
    }
    (run / "tempest.conf").write_text(text.format(**values))
    site = next((HOME / "lib").glob("python3*/site-packages"))
    (run / ".stestr.conf").write_text(
        f"[DEFAULT]\ntest_path={site}/{folder}\ntop_dir={site}\ngroup_regex=([^\\.]*\\.)*\n"
    )


class Tempest:
    """Tempest in its own environment, configured by the files in the directory *run*."""

    def __init__(self, run: Path) -> None:
        self.run_directory = run
        self._bin = HOME / "bin"
        self._environment = {
            "TEMPEST_CONFIG_DIR": str(run),
            "PATH": f"{self._bin}:/usr/bin:/bin",
            "PYTHON": "python",  # found by PATH: stestr does not quote a path with a space
            "HOME": str(run),
        }

    def list(self, pattern: str) -> list[str]:
        """Return the names of the tests that *pattern* selects; stestr can list after a run."""
        done = subprocess.run(
            [self._bin / "stestr", "list", pattern],
            stdout=subprocess.PIPE,
            cwd=self.run_directory,
            env=self._environment,
            check=True,
            text=True,
        )
        return [re.sub(r"\[.*\]$", "", line) for line in done.stdout.split()]

    def run(self, pattern: str, workers: int) -> list[dict]:
        """Run the tests that *pattern* selects; return what became of them."""
        stestr = [self._bin / "stestr", "run", "--subunit", "--concurrency", str(workers)]
        with (self.run_directory / "tempest.log").open("wb") as log:
            tests = subprocess.Popen(
                [*stestr, pattern],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.run_directory,
                env=self._environment,
            )
            assert tests.stdout is not None
            reader = subprocess.run(
                [self._bin / "python", HERE / "outcomes.py"],
                stdin=tests.stdout,
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            tests.stdout.close()
            tests.wait()
        return [json.loads(line) for line in reader.stdout.splitlines()]


def report(outcomes: Mapping[str, Outcome], differences: Differences) -> None:
    """Print how a run differs from what is expected."""
    for name in (*differences.failed, *differences.unlisted):
        found = outcomes.get(name, Outcome("does not exist"))
        say(f"\nFAILED {name}: {found.status}\n{found.reason}")
    if differences.unlisted:
        say("\nNeither pass nor have a reason in not_passing.txt; add them with --update:")
        say("\n".join(f"  {name}" for name in differences.unlisted))
    if differences.unknown:
        say("\nHave a reason in not_passing.txt and do not exist; remove them with --update:")
        say("\n".join(f"  {name}" for name in differences.unknown))
    if differences.newly_passing:
        say("\nNewly passing; enter them with --update:")
        say("\n".join(f"  {name}" for name in differences.newly_passing))
    counts = Counter(outcome.status for outcome in outcomes.values())
    say(f"\n{dict(counts)}; {differences.errors} not as expected")


def tracebacks(run: Path) -> list[Path]:
    """Return the logs of server and agents that contain a traceback."""
    logs = (run / f"{name}.log" for name in ("server", "l2-agent", "dhcp-agent", "l3-agent"))
    return [log for log in logs if "Traceback" in log.read_text(errors="replace")]


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    server = Path(sys.executable).parent / "netfw-server"
    parser.add_argument(
        "--server", default=shlex.quote(str(server)), help="the command that serves"
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    prepare()
    if not sandbox.inside():
        sandbox.enter([sys.executable, "-m", "tests.tempest.run", *argv])
    pattern = EVERYTHING + f"({arguments.only})" if arguments.only else EVERYTHING
    if arguments.short:
        pattern = "|".join(read_lines(SHORT))
    run = ROOT / ".netfw" / ("tempest-short" if arguments.short else "tempest-run")
    with running_cloud(shlex.split(arguments.server), run) as made:
        write_tempest_conf(made, run, SOME if arguments.short else ALL)
        tempest = Tempest(run)
        start = time.monotonic()
        lines = tempest.run(pattern, arguments.workers)
        say(f"{len(lines)} outcomes in {time.monotonic() - start:.0f} s")
        tests = tempest.list(pattern)
    (run / "outcomes.json").write_text(json.dumps(lines, indent=1))
    outcomes = parse_outcomes(tests, lines)
    differences = compare(outcomes, read_expectations().matching(pattern))
    report(outcomes, differences)
    if arguments.update:
        write_expectations(updated(read_expectations(), differences, outcomes))
    broken = tracebacks(run)
    for log in broken:
        say(f"{log} contains a traceback")
    return 1 if differences.errors or broken or not tests else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
