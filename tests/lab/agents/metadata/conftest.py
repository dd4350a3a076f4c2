from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.lab.agents.metadata.environment import Agent
from tests.lab.agents.metadata.recording_service import RecordingService, Response


@pytest.fixture
def service() -> Iterator[RecordingService]:
    with RecordingService() as made:
        yield made


@pytest.fixture
def make_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    made: list[Agent] = []

    def make(port: int, name: str = "agent", **groups: Mapping[str, object]) -> Agent:
        made.append(Agent(tmp_path / name, port, **groups))
        return made[-1]

    yield make
    for each in made:
        each.stop()


@pytest.fixture
def agent(make_agent: Callable[..., Agent], service: RecordingService) -> Agent:
    """Start an agent that the test may end or reconfigure."""
    made = make_agent(service.port)
    made.start()
    return made


@pytest.fixture(scope="module")
def lasting_service() -> Iterator[RecordingService]:
    with RecordingService() as made:
        yield made


@pytest.fixture(scope="module")
def lasting_agent(
    tmp_path_factory: pytest.TempPathFactory, lasting_service: RecordingService
) -> Iterator[Agent]:
    made = Agent(tmp_path_factory.mktemp("lasting"), lasting_service.port)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def known(lasting_service: RecordingService) -> RecordingService:
    """Return the service of the agent that lasts, without recorded requests."""
    lasting_service.seen.clear()
    lasting_service.behave = lambda _: Response()
    lasting_service.reads_bodies = True
    return lasting_service
