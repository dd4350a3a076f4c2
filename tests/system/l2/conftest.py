"""Sites that tests share: each is a lab whose hosts run agents."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from netfw.testing.lab import sandbox
from netfw.testing.lab.lab import Lab
from tests.system.l2.agent_host import ALL_FLAVOURS, PHYSNET
from tests.system.l2.environment import Site


@pytest.fixture(scope="session")
def shared_site(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield three hosts with agents, set up by the parameter, for all tests of that parameter."""
    sandbox.require()
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(hosts=3, bridges=["br-int"], provider=[PHYSNET]))
        site = Site(lab, tmp_path_factory.mktemp("site"), request.param, agents=3)
        site.start()
        yield site
        for host in site.hosts.values():
            assert host.stop() == 0


@pytest.fixture
def site(shared_site: Site) -> Iterator[Site]:
    """Yield a site without networks; what a test makes is removed afterwards without a trace."""
    with shared_site.tidy():
        yield shared_site


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on the sites that ``@pytest.mark.flavours(...)`` names."""
    if "shared_site" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("flavours")
        flavours = marker.args if marker is not None else ALL_FLAVOURS
        metafunc.parametrize("shared_site", flavours, ids=str, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "flavours(...): the kinds of sites that a test runs on")
