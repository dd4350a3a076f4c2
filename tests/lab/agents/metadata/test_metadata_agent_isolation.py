"""Responses of the metadata service reach the instance that requested them, and no other."""

from __future__ import annotations

import pytest

from tests.lab.agents.metadata.environment import FIRST, Agent, address
from tests.lab.agents.metadata.recording_service import RecordingService, Response, Seen

ATTACKER, VICTIM = address(FIRST), address(FIRST + 1)
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
FOREIGN = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nforeign\n"


def answer_with_target(seen: Seen) -> Response:
    """Answer a smuggled request late, so that its response meets the next request."""
    return Response(body=seen.target.encode(), after=1.0 * (seen.target == "/smuggled"))


@pytest.mark.spec("MD-06", "MD-10")
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE", "POST", "PUT"])
def test_unread_body_gives_no_response_to_another_instance(
    lasting_agent: Agent, known: RecordingService, method: str
) -> None:
    known.behave, known.reads_bodies = answer_with_target, False
    lasting_agent.ask("/mine", of=ATTACKER, method=method, body=SMUGGLED)
    assert lasting_agent.ask("/victim", of=VICTIM).body == b"/victim"
    assert lasting_agent.ask("/mine", of=ATTACKER).body == b"/mine"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
def test_body_of_a_request_without_one_is_refused(
    lasting_agent: Agent, known: RecordingService, method: str
) -> None:
    refused = lasting_agent.ask(method=method, body=SMUGGLED)
    assert refused.status == 400
    assert known.seen == []
    assert lasting_agent.ask(method=method, headers={"Content-Length": "0"}).status == 200


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 200)]
)
def test_bytes_after_a_response_do_not_reach_another_instance(
    lasting_agent: Agent, known: RecordingService, method: str, status: int
) -> None:
    known.behave = lambda seen: (
        Response(status=status, late=FOREIGN)
        if seen.target == "/mine"
        else Response(body=seen.target.encode())
    )
    lasting_agent.ask("/mine", of=address(FIRST + 2), method=method)
    assert lasting_agent.ask("/victim", of=VICTIM).body == b"/victim"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
def test_connection_is_not_reused_after_a_response_without_a_body(
    lasting_agent: Agent, known: RecordingService, method: str, status: int
) -> None:
    known.behave = lambda seen: (
        Response(status=status, late=FOREIGN)
        if seen.target == "/first"
        else Response(body=seen.target.encode())
    )
    lasting_agent.ask("/first", of=ATTACKER, method=method)
    assert lasting_agent.ask("/second", of=ATTACKER).body == b"/second"


def test_connection_of_an_instance_is_reused_for_that_instance_only(
    lasting_agent: Agent, known: RecordingService
) -> None:
    before = known.connections
    for source in (VICTIM, ATTACKER, VICTIM, ATTACKER, ATTACKER):
        lasting_agent.ask(of=source)
    assert known.connections - before <= 2, "one connection for each instance, at most"
