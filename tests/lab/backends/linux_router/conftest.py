"""Fixtures of the tests with routers in a lab."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netfw.drivers.router import RouterDriver
from netfw.testing.conformance.router.factories import Site, make_site
from tests.lab.backends.linux_router.environment import LinuxRouterEnvironment, MakeDriver


@pytest.fixture(scope="module")
def environment() -> Iterator[LinuxRouterEnvironment]:
    with LinuxRouterEnvironment() as made:
        yield made


@pytest.fixture
def make_driver(environment: LinuxRouterEnvironment) -> Iterator[MakeDriver]:
    made: list[RouterDriver] = []

    def make() -> RouterDriver:
        while made:
            environment.killed(made.pop())
        made.append(environment.make_driver())
        return made[-1]

    yield make
    assert make().gc(()).ok
    environment.killed(made.pop())
    environment.dismiss()


@pytest.fixture
def site(environment: LinuxRouterEnvironment) -> Site:
    made = make_site()
    environment.know(made.ports)
    return made
