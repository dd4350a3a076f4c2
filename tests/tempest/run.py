"""Run the network API tests of Tempest and of neutron-tempest-plugin against netfw-server.

    python tests/tempest/run.py                 everything; compares with passing.txt
    python tests/tempest/run.py --short         the tests of short.txt alone, in about a minute
    python tests/tempest/run.py --only REGEX    some of them
    python tests/tempest/run.py --update        everything, and what passes newly enters the list

A test of passing.txt that does not pass is an error; the list only grows.  The server runs on an
SQLite file and validates tokens with keystonemiddleware against a stand-in for Keystone; agents
that only say that they are ready make one host.  What was said is in .netfw/tempest-run:
server.log, tempest.conf, outcomes.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOME = ROOT / ".netfw" / "tempest"
RUN = ROOT / ".netfw" / ("tempest-short" if "--short" in sys.argv else "tempest-run")
PASSING = HERE / "passing.txt"
SHORT = HERE / "short.txt"
EVERYTHING = r"^(tempest\.api\.network|neutron_tempest_plugin\.api)\."
ALL, SOME = "tempest/test_discover", "tempest/api/network"
START = 120.0
EXTERNAL = "public"


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


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def running(command: list, log: Path) -> Iterator[subprocess.Popen]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, cwd=RUN)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.communicate(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


class Cloud:
    """The server and the stand-in, and an administrator's way to both."""

    def __init__(self, identity: str, network: str) -> None:
        self.identity, self.network = identity, network
        self.token = ""

    def call(self, method: str, url: str, body: object = None) -> tuple[dict, dict]:
        headers = {"X-Auth-Token": self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(answer.headers), json.loads(answer.read() or b"{}")

    def log_in(self) -> None:
        domain = {"id": "default"}
        user = {"name": "admin", "password": "admin", "domain": domain}
        proof = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": "admin", "domain": domain}}
        asked = {"auth": {"identity": proof, "scope": scope}}
        headers, _ = self.call("POST", f"{self.identity}/auth/tokens", asked)
        self.token = headers["X-Subject-Token"]

    def wait(self) -> None:
        deadline = time.monotonic() + START
        while True:
            try:
                self.call("GET", f"{self.network}/v2.0/networks")
            except OSError as exc:
                if time.monotonic() > deadline:
                    words = f"netfw-server does not answer: {exc}; see {RUN}/server.log"
                    raise SystemExit(words) from exc
                time.sleep(0.1)
            else:
                return

    def wait_for_agents(self) -> None:
        deadline = time.monotonic() + START
        while not self.call("GET", f"{self.network}/v2.0/agents")[1]["agents"]:
            if time.monotonic() > deadline:
                raise SystemExit(f"no agent reports; see {RUN}/agents.log")
            time.sleep(0.1)

    def make_external_network(self) -> str:
        network = {"name": EXTERNAL, "router:external": True, "shared": False}
        _, made = self.call("POST", f"{self.network}/v2.0/networks", {"network": network})
        id = made["network"]["id"]
        subnet = {"network_id": id, "ip_version": 4, "cidr": "203.0.113.0/24"}
        self.call(
            "POST", f"{self.network}/v2.0/subnets", {"subnet": {**subnet, "enable_dhcp": False}}
        )
        return id

    def make_default_pools(self) -> None:
        """Topologies are allocated from default pools that all projects see."""
        for prefix, length in {"10.192.0.0/12": 24, "fd00:192::/32": 64}.items():
            pool = {"name": "default", "prefixes": [prefix], "default_prefixlen": length}
            pool |= {"min_prefixlen": length, "is_default": True, "shared": True}
            self.call("POST", f"{self.network}/v2.0/subnetpools", {"subnetpool": pool})

    def extensions(self) -> list[str]:
        _, found = self.call("GET", f"{self.network}/v2.0/extensions")
        return sorted(each["alias"] for each in found["extensions"])


@contextlib.contextmanager
def cloud(command: list[str]) -> Iterator[Cloud]:
    """All processes, with nothing made yet."""
    shutil.rmtree(RUN, ignore_errors=True)
    RUN.mkdir(parents=True)
    port = free_port()
    network = f"http://127.0.0.1:{port}"
    stand_in = [sys.executable, HERE / "keystone_stand_in.py", "--network", network]
    with running(stand_in, RUN / "keystone.log") as keystone:
        identity = json.loads(keystone.stdout.readline())["url"]
        (RUN / "netfw.conf").write_text(
            (HERE / "netfw.conf").read_text().format(run=RUN, port=port, identity=identity)
        )
        with running([*command, "--config-file", RUN / "netfw.conf"], RUN / "server.log"):
            made = Cloud(identity, network)
            made.log_in()
            made.wait()
            agents = [sys.executable, HERE / "simulated_agents.py", f"unix:{RUN}/messages.sock"]
            with running(agents, RUN / "agents.log"):
                made.wait_for_agents()
                yield made


def write_tempest_conf(made: Cloud, where: str) -> None:
    """*where*: the folder in which tests are looked for; a small one is looked through faster."""
    text = (HERE / "tempest.conf").read_text()
    made.make_default_pools()
    values = {
        "run": RUN,
        "identity": made.identity,
        "public": made.make_external_network(),
        "external": EXTERNAL,
        "extensions": ",".join(made.extensions()),
    }
    (RUN / "tempest.conf").write_text(text.format(**values))
    site = next((HOME / "lib").glob("python3*/site-packages"))
    (RUN / ".stestr.conf").write_text(
        f"[DEFAULT]\ntest_path={site}/{where}\ntop_dir={site}\ngroup_regex=([^\\.]*\\.)*\n"
    )


def run_tests(arguments: list[str], workers: int) -> list[dict]:
    """The outcomes of the tests that *arguments* of stestr select."""
    bin = HOME / "bin"
    command = [bin / "stestr", "run", "--subunit", "--concurrency", str(workers), *arguments]
    environment = {
        "TEMPEST_CONFIG_DIR": str(RUN),
        "PATH": f"{bin}:/usr/bin:/bin",
        "PYTHON": "python",  # found by PATH: stestr does not quote a path with a space
        "HOME": str(RUN),
    }
    with (RUN / "tempest.log").open("wb") as log:
        tests = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, cwd=RUN, env=environment
        )
        reader = subprocess.run(
            [bin / "python", HERE / "outcomes.py"],
            stdin=tests.stdout,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        tests.stdout.close()
        tests.wait()
    return [json.loads(line) for line in reader.stdout.splitlines()]


def listed(path: Path) -> list[str]:
    if not path.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def compare(outcomes: list[dict], expected: list[str], update: bool) -> int:
    """Say what differs from the list; the number of tests that should have passed."""
    passed = {each["test"] for each in outcomes if each["status"] == "success"}
    missing = sorted(set(expected) - passed)
    told = {each["test"]: each for each in outcomes}
    for name in missing:
        found = told.get(name, {"status": "did not run", "told": ""})
        say(f"\nFAILED {name}: {found['status']}\n{found['told'].strip()}")
    new = sorted(name for name in passed - set(listed(PASSING)) if "setUpClass" not in name)
    if new and update:
        PASSING.write_text("\n".join(sorted({*listed(PASSING), *new})) + "\n")
    elif new:
        say("\nNewly passing; enter them with --update:")
        say("\n".join(f"  {name}" for name in new))
    counts = Counter(each["status"] for each in outcomes)
    say(f"\n{dict(counts)}; {len(missing)} of {len(expected)} expected ones do not pass")
    return len(missing)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", metavar="REGEX")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    server = Path(sys.executable).parent / "netfw-server"
    parser.add_argument(
        "--server", default=shlex.quote(str(server)), help="the command that serves"
    )
    arguments = parser.parse_args()
    prepare()
    pattern = arguments.only or EVERYTHING
    if arguments.short:
        pattern = "|".join(listed(SHORT))
    with cloud(shlex.split(arguments.server)) as made:
        write_tempest_conf(made, SOME if arguments.short else ALL)
        start = time.monotonic()
        outcomes = run_tests([pattern], arguments.workers)
        say(f"{len(outcomes)} tests in {time.monotonic() - start:.0f} s")
    (RUN / "outcomes.json").write_text(json.dumps(outcomes, indent=1))
    expected = [name for name in listed(PASSING) if re.search(pattern, name)]
    return 1 if compare(outcomes, expected, arguments.update) or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
