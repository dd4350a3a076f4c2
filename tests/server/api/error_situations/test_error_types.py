"""Every declared type of error, in a situation that a client can be in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from netfw.errors import RequestError
from netfw.errors.registry import error_classes
from tests.server.api.error_situations import (
    agents,
    networks,
    ports,
    requests,
    routers,
    security_groups,
)
from tests.server.api.error_situations.cloud import SITUATIONS, Cloud, Situation, start_cloud

AREAS = (agents, networks, ports, requests, routers, security_groups)
"""Modules that register situations when they are imported."""
DECLARED_IN = frozenset(
    f"netfw.errors.{area}"
    for area in ("agents", "networks", "ports", "quotas", "requests", "routers", "security_groups")
)
UNREACHED = {
    "HostMacAddressGenerationFailure": "2**24 ports",
    "SegmentInUse": "segments go with their network",
}
"""Types that no short situation leads to, and why."""


@pytest.fixture
def cloud(empty_tables: Path, tmp_path: Path) -> Iterator[Cloud]:
    with start_cloud(empty_tables, tmp_path) as cloud:
        yield cloud


@pytest.mark.spec("API-04")
@pytest.mark.parametrize(
    ("word", "status", "situation"),
    SITUATIONS,
    ids=[f"{word}-{function.__name__}" for word, _, function in SITUATIONS],
)
def test_the_error_of_a_situation_has_the_type_that_clients_know(
    cloud: Cloud, word: str, status: int, situation: Situation
) -> None:
    reply = situation(cloud)
    assert reply.status >= 400, reply.data
    assert (reply.status, reply.error["type"]) == (status, word), reply.error["message"]
    assert reply.error["message"]


@pytest.mark.spec("API-04")
def test_every_declared_type_has_a_situation() -> None:
    declared = {
        each.api_type
        for each in error_classes().values()
        if issubclass(each, RequestError) and each.__module__ in DECLARED_IN
    }
    assert declared - {word for word, _, _ in SITUATIONS} == UNREACHED.keys()
