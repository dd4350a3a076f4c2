import pytest

from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import ConfigError


class Shared:
    def __init__(self, name: str, closed: list[str], broken: bool = False) -> None:
        self.name, self.closed, self.broken = name, closed, broken

    def close(self) -> None:
        self.closed.append(self.name)
        if self.broken:
            raise OSError(self.name)


def test_what_is_shared_is_made_once() -> None:
    host = LocalHostResources()
    first = host.share("key", object)
    assert host.share("key", object) is first
    assert host.share("other", object) is not first


@pytest.mark.spec("DRV-20")
def test_two_hosts_share_nothing() -> None:
    assert LocalHostResources().share("key", object) is not LocalHostResources().share(
        "key", object
    )


def test_the_last_made_is_closed_first_and_none_keeps_another_open() -> None:
    closed: list[str] = []
    host = LocalHostResources()
    host.share(1, lambda: Shared("one", closed))
    host.share(2, lambda: Shared("two", closed, broken=True))
    host.share(3, lambda: Shared("three", closed))
    with pytest.raises(OSError, match="two"):
        host.close()
    assert closed == ["three", "two", "one"]
    host.close()
    assert closed == ["three", "two", "one"]


def test_a_collaborator_that_is_missing_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigError, match="no InterfaceDriver; configure one"):
        LocalHostResources().driver(InterfaceDriver)
