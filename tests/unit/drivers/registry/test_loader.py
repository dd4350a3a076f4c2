"""Drivers are found in real distributions: each test installs some on a path of its own."""

import sys
from pathlib import Path

import pytest

from netfw.drivers.base import DriverInfo
from netfw.drivers.host_driver import HostCapability
from netfw.drivers.interface import InterfaceCapability, InterfaceDriver
from netfw.drivers.registry.loader import catalogue, check, create, installed, load
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import ConfigError, DriverInvalid, DriverNotFound
from netfw.plan import Outcome
from tests.unit.drivers.registry.vendor_site import GOOD, Site

pytestmark = pytest.mark.real


@pytest.mark.spec("DRV-10")
def test_a_driver_is_loaded_by_its_name(site: Site) -> None:
    site.install("acme_a", GOOD, name="acme", distribution="acme-net", cls="Acme")
    assert load(InterfaceDriver, "acme").__name__ == "Acme"
    assert "acme" in installed(InterfaceDriver)


@pytest.mark.spec("DRV-10", "DRV-12")
@pytest.mark.parametrize("before", [None, "other"])
def test_a_driver_that_is_installed_later_is_found(site: Site, before: str | None) -> None:
    # The directory was empty before, or the program has found other drivers in it.
    if before:
        site.install("other_driver", GOOD, name=before, distribution="other", cls="Acme")
        load(InterfaceDriver, before)
    with pytest.raises(DriverNotFound):
        load(InterfaceDriver, "acme")
    site.install("acme_driver", GOOD, name="acme", distribution="acme-net", cls="Acme")
    assert load(InterfaceDriver, "acme").__module__ == "acme_driver"


def test_a_claim_that_comes_later_is_refused_too(site: Site) -> None:
    site.install("acme_driver", GOOD, name="acme", distribution="acme-net", cls="Acme")
    load(InterfaceDriver, "acme")
    site.install("other_driver", GOOD, name="acme", distribution="other", cls="Acme")
    with pytest.raises(DriverInvalid, match="claimed by acme-net"):
        load(InterfaceDriver, "acme")


def test_all_entry_points_are_read_once_for_many_drivers(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("acme_driver", GOOD, name="acme", distribution="acme-net", cls="Acme")
    load(InterfaceDriver, "acme")  # compiled now: that changes the place where it is
    monkeypatch.setattr(sys, "path", [str(site.directory)])  # elsewhere others may work meanwhile
    load(InterfaceDriver, "acme")
    reads: list[Path] = []
    read = Path.read_text

    def counted(path: Path, *args: object, **more: object) -> str:
        reads.append(path)
        return read(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", counted)
    for _ in range(3):
        load(InterfaceDriver, "acme")
    assert not [path for path in reads if path.name == "entry_points.txt"]


def test_a_driver_is_made_from_checked_options(site: Site) -> None:
    site.install("acme_b", GOOD, name="acme", distribution="acme-net", cls="Acme")
    driver = create(
        InterfaceDriver, "acme", {"switch": "sw1", "retries": "5"}, LocalHostResources()
    )
    assert (driver.switch, driver.retries) == ("sw1", 5)  # type: ignore[attr-defined]


@pytest.mark.spec("DRV-12")
def test_wrong_options_are_all_named(site: Site) -> None:
    site.install("acme_c", GOOD, name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(ConfigError) as caught:
        create(InterfaceDriver, "acme", {"retrys": 2, "retries": 0}, LocalHostResources())
    assert str(caught.value) == (
        "driver 'acme': retrys is not an option, did you mean 'retries'?; "
        "switch must be set (Address of the switch.); "
        "retries cannot be 0: Should be greater than or equal to 1"
    )


@pytest.mark.spec("DRV-11")
def test_an_unknown_name_gets_the_nearest_and_the_list(site: Site) -> None:
    site.install("acme_h", GOOD, name="acmeswitch", distribution="acme-net", cls="Acme")
    with pytest.raises(DriverNotFound) as caught:
        load(InterfaceDriver, "acmswitch")
    assert "did you mean 'acmeswitch'?" in str(caught.value)
    assert "installed: acmeswitch" in str(caught.value)


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("from netfw.plan", "from netfw.plam"), "cannot be imported: ModuleNotFoundError"),
        (("class Acme", "class Other"), "cannot be imported: AttributeError"),
        (("class Acme", "raise SystemExit(3)\nclass Acme"), "cannot be imported: SystemExit: 3"),
        (("class Acme", "assert False, 'x'\nclass Acme"), "imported: AssertionError: x (in "),
        (("OPTIONS = (", "OPTIONS = ('switch',"), "not a tuple of oslo.config options"),
        (("class Acme(InterfaceDriver)", "class Acme"), "is not a subclass of netfw.drivers.inter"),
        (("def devices", "def device"), "does not implement devices"),
        (("VERSION = 2", "pass"), "does not say which version it was written for; add VERSION = 2"),
        (("VERSION = 2", "VERSION = 7"), "this netfw has version 2; install a newer netfw, or an"),
        (("VERSION = 2", "VERSION = 1"), "written for version 1 of InterfaceDriver, and this"),
        (("VERSION = 2", "VERSION = 1"), "adapts the class and writes VERSION = 2"),
        (("def converge(self, update)", "def converge(self)"), "cannot be called as converge("),
    ],
)
def test_an_unusable_driver_is_named_with_its_origin_and_the_reason(
    site: Site, change: tuple[str, str], reason: str
) -> None:
    module = f"acme_{abs(hash(change))}"
    site.install(module, GOOD.replace(*change), name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(DriverInvalid, match=r"'acme' from acme-net 1\.2") as caught:
        load(InterfaceDriver, "acme")
    assert reason in str(caught.value)


@pytest.mark.spec("DRV-11")
def test_a_name_that_two_distributions_claim_is_refused(site: Site) -> None:
    site.install("acme_d", GOOD, name="acme", distribution="acme-net", cls="Acme")
    site.install("acme_e", GOOD, name="acme", distribution="better-net", cls="Acme")
    with pytest.raises(DriverInvalid, match=r"acme-net 1.2 .*better-net 1.2 .*uninstall all but"):
        load(InterfaceDriver, "acme")


@pytest.mark.spec("DRV-11")
def test_the_rest_go_on_beside_a_broken_driver(site: Site) -> None:
    site.install("acme_f", "raise RuntimeError('boom')", name="acme", distribution="a", cls="A")
    site.install("acme_g", GOOD, name="good", distribution="good-net", cls="Acme")
    found = {entry.name: entry for entry in catalogue(InterfaceDriver)}
    assert "RuntimeError: boom" in str(found["acme"].error)
    assert found["good"].driver is not None


def test_a_class_of_the_program_itself_is_checked_too() -> None:
    class Half(InterfaceDriver):
        VERSION = 2

        def describe(self) -> DriverInfo[HostCapability | InterfaceCapability]:
            return DriverInfo("half")

        def converge(self, update: object) -> Outcome[object]:  # type: ignore[override]
            return Outcome()

    with pytest.raises(DriverInvalid, match="does not implement devices, from_conf"):
        check(InterfaceDriver, "half", Half)


def test_an_option_that_is_not_set_has_its_default(site: Site) -> None:
    site.install("acme_i", GOOD, name="acme", distribution="acme-net", cls="Acme")
    driver = create(InterfaceDriver, "acme", {"switch": "s", "retries": None}, LocalHostResources())
    assert driver.retries == 3  # type: ignore[attr-defined]


def test_a_driver_that_cannot_be_made_is_named(site: Site) -> None:
    broken = GOOD.replace('options["retries"]', 'options["tries"]')
    site.install("acme_j", broken, name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(
        DriverInvalid, match=r"made: KeyError: 'tries' \(in .*/acme_j.py, line 17\)"
    ):
        create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())


def test_what_a_driver_finds_wrong_is_said_with_its_group(site: Site) -> None:
    refusing = GOOD.replace("return cls(", "raise ConfigError('switch: not there') if 1 else cls(")
    refusing = f"from netfw.errors import ConfigError\n{refusing}"
    site.install("acme_k", refusing, name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(ConfigError, match=r"^\[acme\] switch: not there$"):
        create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())


def test_driver_with_a_capability_of_another_contract_is_refused(site: Site) -> None:
    foreign = GOOD.replace('DriverInfo("acme")', 'DriverInfo("acme", {DhcpCapability.DHCPV6})')
    foreign = f"from netfw.drivers.dhcp import DhcpCapability\n{foreign}"
    site.install("acme_l", foreign, name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(DriverInvalid) as caught:
        create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())
    assert str(caught.value) == (
        "netfw.interface_drivers: 'acme' cannot be used: it declares dhcpv6, and the capabilities "
        "of InterfaceDriver are plan, watch, namespaces, mtu-change, gateway-addresses"
    )


def test_driver_that_cannot_describe_itself_is_refused(site: Site) -> None:
    mute = GOOD.replace('return DriverInfo("acme")', "raise KeyError('name')")
    site.install("acme_m", mute, name="acme", distribution="acme-net", cls="Acme")
    with pytest.raises(
        DriverInvalid, match=r"itself: KeyError: 'name' \(in .*/acme_m.py, line 19\)"
    ):
        create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())


def test_driver_of_a_draft_contract_is_loaded_with_a_warning(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    site.install("acme_n", GOOD, name="acme", distribution="acme-net", cls="Acme")
    load(InterfaceDriver, "acme")
    assert not caplog.records
    monkeypatch.setattr(InterfaceDriver, "DRAFT", True)
    load(InterfaceDriver, "acme")
    assert [record.getMessage() for record in caplog.records] == [
        "netfw.interface_drivers: 'acme' is a driver of a draft contract: "
        "it may change without notice"
    ]
