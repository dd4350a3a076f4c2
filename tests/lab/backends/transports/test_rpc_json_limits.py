"""JSON of one agent or server that becomes much larger in memory than on the wire."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netfw.drivers.support.error_codec import decode_error
from netfw.drivers.transport import Caller, Message, Transport
from netfw.errors import BackendBroken, InvalidInput
from netfw.state.rpc import RemoteSource
from netfw.state.rpc.envelope import SERVER, VERSION, unpack_answer
from netfw.testing.conformance.state_source import samples

pytestmark = pytest.mark.spec("RPC-06")

SIZE = 14 << 20
"""Bytes that a message may have, by ``max_message_size``."""
LARGE = {
    "objects": b'{"a":1},',
    "nested objects": b'{"a":{"b":1}},',
    "lists": b"[[1]],",
    "texts": b'"ab",',
}
SERVE = """
import sys
from netfw.drivers.registry.loader import create
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.transport import Transport
from netfw.state.memory_source import MemorySource
from netfw.state.rpc import StateRpcServer
options = {"listen": f"unix:{sys.argv[1]}", "connect": ""}
transport = create(Transport, "socket", options, LocalHostResources())
StateRpcServer(MemorySource(), transport).open()
print("ready", flush=True)
sys.stdin.read()
"""


def filled(unit: bytes) -> bytes:
    """Return an object of JSON that has one unit as often as a message can have it."""
    return b'{"reports":[' + unit * (SIZE // len(unit)) + b"0]}"


def peak(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(found) * 1024


@pytest.fixture
def server(here: Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a server in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(here / "s")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


@pytest.mark.parametrize("unit", LARGE.values(), ids=LARGE)
def test_large_request_is_refused_before_it_is_parsed(
    here: Path, server: subprocess.Popen[str], transport: Callable[..., Transport], unit: bytes
) -> None:
    client = transport(connect=f"unix:{here}/s")
    before = peak(server.pid)
    request = Message(topic=SERVER, method="report", version=VERSION, body=filled(unit))
    with pytest.raises(InvalidInput, match="is the limit"):
        client.call(request, 60)
    assert peak(server.pid) - before < 5 * SIZE, "copies of the message, and nothing else"
    empty = Message(topic=SERVER, method="report", version=VERSION, body=b'{"reports":[]}')
    assert client.call(empty, 60).body == b"{}"


@pytest.mark.parametrize("unit", LARGE.values(), ids=LARGE)
def test_large_request_within_the_limits_is_cheap(
    here: Path, server: subprocess.Popen[str], transport: Callable[..., Transport], unit: bytes
) -> None:
    # This is the largest request of each kind that is parsed.
    client = transport(connect=f"unix:{here}/s")
    before = peak(server.pid)
    separators = sum(map(unit.count, (b",", b"[", b"{")))
    count = min(4_000_000 // len(unit), 240_000 // max(1, separators))
    body = b'{"reports":[' + unit * count + b"0]}"
    with pytest.raises(InvalidInput, match="reports"):
        client.call(Message(topic=SERVER, method="report", version=VERSION, body=body), 60)
    assert peak(server.pid) - before < 5 * SIZE


def test_large_answer_is_refused_before_it_is_parsed(
    here: Path, transport: Callable[..., Transport]
) -> None:
    def answer(message: Message, caller: Caller) -> Message:
        return Message(topic=message.topic, method=message.method, version=VERSION, body=body)

    body = filled(LARGE["objects"])
    server = transport(listen=f"unix:{here}/s")
    server.serve(SERVER, answer)
    source = RemoteSource(transport(connect=f"unix:{here}/s"), timeout=60)
    with pytest.raises(BackendBroken, match="is the limit"):
        list(source.snapshot(samples.L2_HERE))


def test_large_error_is_refused_before_it_is_parsed() -> None:
    problems = b'"a":"b",' * 300_000 + b'"c":"d"'
    error = decode_error(b'{"classes":["Conflict"],"text":"x","problems":{' + problems + b"}}")
    assert "cannot be read" in str(error)


def test_largest_pages_are_read() -> None:
    # One resource can be larger than a page: it is sent alone.
    rules = [{"id": str(number), "remote": None, "ports": [1, 2]} for number in range(60_000)]
    body = json.dumps({"put": [["security_group", {"rules": rules}]]}).encode()
    assert unpack_answer(body)["put"][0][1]["rules"] == rules
