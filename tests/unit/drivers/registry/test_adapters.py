"""Drivers of another framework are found in its entry points, and loaded through an adapter."""

from __future__ import annotations

from typing import Any

import pytest

from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.loader import catalogue, installed, list_opts, load, registrations
from netfw.errors import DriverInvalid, DriverNotFound
from tests.unit.drivers.registry.vendor_site import GOOD, Site

pytestmark = [pytest.mark.real, pytest.mark.spec("ML2-12")]

FOREIGN = "acme.framework.drivers"
ADAPTER = f"""{GOOD}
def adapt(name):
    return type(name, (Acme,), {{"NAME": name}})
"""


def install_adapter(site: Site, code: str = ADAPTER) -> None:
    group = f"{InterfaceDriver.GROUP}.adapters"
    site.install(
        "acme_adapter", code, name=FOREIGN, distribution="adapter", cls="adapt", group=group
    )


def install_foreign(site: Site, name: str = "foreign", distribution: str = "acme-vendor") -> None:
    module = f"vendor_{len(distribution)}"
    site.install(module, "x = 1", name=name, distribution=distribution, cls="x", group=FOREIGN)


def test_a_foreign_driver_is_loaded_through_the_adapter_of_its_group(site: Site) -> None:
    install_adapter(site)
    install_foreign(site)
    driver: Any = load(InterfaceDriver, "foreign")
    assert driver.NAME == "foreign"
    assert "foreign" in installed(InterfaceDriver)


def test_a_foreign_driver_is_listed_with_its_own_distribution(site: Site) -> None:
    install_adapter(site)
    install_foreign(site)
    (found,) = [each for each in catalogue(InterfaceDriver) if each.name == "foreign"]
    (registered,) = [each for each in registrations(InterfaceDriver) if each.name == "foreign"]
    assert (registered.distribution, registered.version) == ("acme-vendor", "1.2")
    assert found.foreign_group == FOREIGN
    assert "foreign" not in [group for group, _ in list_opts()]


def test_a_driver_of_netfw_wins_over_a_foreign_one_of_its_name(site: Site) -> None:
    install_adapter(site)
    install_foreign(site, "same")
    site.install("acme_own", GOOD, name="same", distribution="acme-own", cls="Acme")
    assert load(InterfaceDriver, "same").__module__ == "acme_own"
    assert installed(InterfaceDriver).count("same") == 1


def test_without_an_adapter_a_foreign_driver_is_not_found(site: Site) -> None:
    install_foreign(site)
    with pytest.raises(DriverNotFound, match="no driver 'foreign'"):
        load(InterfaceDriver, "foreign")


def test_a_foreign_name_of_two_distributions_is_refused_with_both(site: Site) -> None:
    install_adapter(site)
    install_foreign(site)
    install_foreign(site, distribution="other-vendor")
    with pytest.raises(DriverInvalid, match=r"acme-vendor 1.2 .* other-vendor 1.2 "):
        load(InterfaceDriver, "foreign")


def test_an_adapter_that_returns_no_driver_is_refused(site: Site) -> None:
    install_adapter(site, "def adapt(name):\n    return name\n")
    install_foreign(site)
    with pytest.raises(DriverInvalid, match="'foreign' is not a subclass of"):
        load(InterfaceDriver, "foreign")


@pytest.mark.parametrize(
    ("code", "reason"),
    [("import nothing_like_this", "cannot be imported"), ("adapt = 1", "cannot adapt 'foreign'")],
)
def test_an_adapter_that_cannot_be_used_is_refused_with_the_reason(
    site: Site, code: str, reason: str
) -> None:
    install_adapter(site, code)
    install_foreign(site)
    with pytest.raises(DriverInvalid, match=reason):
        load(InterfaceDriver, "foreign")
