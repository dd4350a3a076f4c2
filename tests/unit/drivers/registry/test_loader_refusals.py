"""What the loader refuses before a driver runs, and what it only warns of."""

from itertools import count

import pytest

from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.registry.class_warnings import (
    capability_warnings,
    class_warnings,
    description_warnings,
)
from netfw.drivers.registry.declarations import convert
from netfw.drivers.registry.entry_point_index import misplaced_points
from netfw.drivers.registry.loader import all_contracts, create, load
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import DriverInvalid
from tests.unit.drivers.registry.vendor_site import GOOD, Site

pytestmark = pytest.mark.real

_numbers = count()

CONVERGE = "    def converge(self, update):\n        return Outcome(done=frozenset(update))\n"
DEVICES = "    def devices(self):\n        return {}\n"
DESCRIBE = '    def describe(self):\n        return DriverInfo("acme")\n'
OPTIONS = "    OPTIONS = ("


def install(site: Site, code: str, name: str = "acme", cls: str = "Acme") -> None:
    site.install(f"vendor_{next(_numbers)}", code, name=name, distribution="acme-net", cls=cls)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


def refusal(site: Site, code: str, name: str = "acme", cls: str = "Acme") -> str:
    install(site, code, name, cls)
    with pytest.raises(DriverInvalid) as caught:
        load(InterfaceDriver, name)
    return str(caught.value)


def warnings_of(site: Site, code: str, name: str = "acme") -> list[str]:
    install(site, code, name)
    return [*class_warnings(InterfaceDriver, name, load(InterfaceDriver, name))]


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    def converge", "    async def converge", "converge is an async method, and converge"),
        ("return {}", "yield", "devices is a generator, and devices of InterfaceDriver is a meth"),
        (
            "def devices(self):\n        return {}",
            "async def devices(self): yield",
            "is an async g",
        ),
        (
            "    def devices(self)",
            "    @classmethod\n    def devices(self)",
            "devices is a class m",
        ),
        ("    def devices(self)", "    @staticmethod\n    def devices(self)", "is a static method"),
        ("    def devices(self)", "    @property\n    def devices(self)", "devices is a property"),
        (DEVICES, "    devices = {}\n", "devices is a plain value, and devices"),
        (DEVICES, "    class devices: pass\n", "devices is a class, and devices"),
        (
            "    @classmethod\n    def from",
            "    def from",
            "from_conf is a method, and from_conf of",
        ),
        ("    def from_conf", "    async def from_conf", "from_conf is an async method"),
        ("    def __init__", "    async def __init__", "__init__ is an async method: it is never"),
    ],
)
def test_member_of_another_kind_than_the_contract_has_is_refused(
    site: Site, old: str, new: str, reason: str
) -> None:
    assert reason in refusal(site, changed(old, new))


def test_static_from_conf_and_wrapped_async_method_are_accepted(site: Site) -> None:
    code = changed("    def devices(self)", "    @in_loop\n    async def devices(self)")
    code = code.replace(
        "    @classmethod\n    def from_conf(cls, ", "    @staticmethod\n    def from_conf("
    )
    wrapper = """
import functools
def in_loop(method):
    @functools.wraps(method)
    def call(*args, **more):
        return {}
    return call
"""
    install(site, code.replace("\nclass Acme", f"{wrapper}\nclass Acme"))
    assert load(InterfaceDriver, "acme").__name__ == "Acme"


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("VERSION = 2", "VERSION = '2'", "its VERSION is '2', not a number; write VERSION = 2"),
        ("VERSION = 2", "VERSION = 2.0", "its VERSION is 2.0, not a number"),
        (
            "VERSION = 2",
            "VERSION = 2\n    GROUP = 'netfw.dhcp_drivers'",
            "its GROUP is 'netfw.dhcp",
        ),
        (
            "VERSION = 2",
            "VERSION = 2\n    DRAFT = 'yes'",
            "its DRAFT is 'yes'; it belongs to Inter",
        ),
        ("VERSION = 2", "VERSION = 2\n    CAPABILITY_TYPES = ()", "its CAPABILITY_TYPES is ()"),
        (OPTIONS, "    OPTIONS = [][:] and (", "its OPTIONS are []"),
        (OPTIONS, "    OPTIONS = (cfg.StrOpt,", "not a tuple of oslo.config options"),
    ],
)
def test_wrong_declaration_is_refused(site: Site, old: str, new: str, reason: str) -> None:
    assert reason in refusal(site, changed(old, new))


@pytest.mark.spec("DRV-12")
@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("cfg.IntOpt('switch')", "it declares the option switch 2 times"),
        ("cfg.StrOpt('a-b'), cfg.StrOpt('a_b')", "it declares the option a_b 2 times (a dash"),
        ("cfg.StrOpt('my option')", "'my option' is no name of an option: use letters"),
        ("cfg.StrOpt('')", "'' is no name of an option"),
        ("cfg.StrOpt('class-', dest='a b')", "has the dest 'a b', which is no Python name"),
        ("cfg.StrOpt('x', positional=True)", "option x is for a command line"),
        ("cfg.SubCommandOpt('x')", "option x is for a command line"),
        ("cfg.Opt('x', type=cfg.types.Integer(), default='no')", "processing default value no"),
        ("cfg.Opt('x', type=cfg.types.Integer(max=3), default=5)", "processing default value 5"),
        ("cfg.MultiStrOpt('x', default='a')", "default of option x is 'a', not a list"),
    ],
)
def test_wrong_option_is_refused(site: Site, option: str, reason: str) -> None:
    assert reason in refusal(site, changed(OPTIONS, f"{OPTIONS}{option},"))


def test_values_of_an_option_that_may_be_repeated_are_converted_one_by_one() -> None:
    from oslo_config import cfg, types

    assert convert(cfg.MultiOpt("x", item_type=types.Integer()), ["1", "2"]) == [1, 2]


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("code", "cls", "reason"),
    [
        (GOOD, "Acme:x", "its entry point is 'vendor_"),
        (GOOD, "", "'; write MODULE:CLASS"),
        ("import json", "json", "json is a module: write json:CLASS in the entry point"),
        (f"{GOOD}\nacme = Acme('s', 1)", "acme", "is an object: name its class Acme"),
        (f"{GOOD}\ndef make(): return Acme", "make", "make is a function, not a subclass of"),
        ("from netfw.drivers.server.ipam import IpamDriver", "IpamDriver", "netfw.ipam_drivers"),
        ("from netfw.drivers.interface import InterfaceDriver", "InterfaceDriver", "implement"),
    ],
)
def test_object_that_is_no_driver_class_is_refused_with_what_it_is(
    site: Site, code: str, cls: str, reason: str
) -> None:
    assert reason in refusal(site, code, cls=cls)


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("acme switch", "other characters than letters, digits, dots, dashes"),
        ("acme/switch", "other characters than letters"),
        ("acme-", "other characters than letters"),
        ("default", "its name is that of the group of all programs"),
        ("a" * 65, "its name has 65 characters, and at most 64 are possible"),
    ],
)
def test_name_that_cannot_be_a_group_of_options_is_refused(
    site: Site, name: str, reason: str
) -> None:
    assert reason in refusal(site, GOOD, name=name)


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("None", "describe returned None, which is no DriverInfo with a name"),
        ("DriverInfo('')", "is no DriverInfo with a name"),
        ("DriverInfo(None)", "is no DriverInfo with a name"),
        ("DriverInfo('a', {'mtu-change'})", "it declares 'mtu-change', which is no Capability"),
        ("DriverInfo('a', {Foreign.MTU})", "it declares mtu-change, and the capabilities of"),
        ("DriverInfo('a', {HostCapability.PLAN})", "HostCapability.PLAN and is no Reconciler"),
        ("DriverInfo('a', {HostCapability.WATCH})", "HostCapability.WATCH and does not override"),
    ],
)
def test_driver_that_cannot_be_what_it_describes_is_refused(
    site: Site, returned: str, reason: str
) -> None:
    code = changed('DriverInfo("acme")', returned)
    install(
        site,
        "from netfw.drivers.base import Capability\n"
        "from netfw.drivers.host_driver import HostCapability\n"
        f"class Foreign(Capability):\n    MTU = 'mtu-change'\n{code}",
    )
    with pytest.raises(DriverInvalid) as caught:
        create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (OPTIONS, f"{OPTIONS}cfg.StrOpt('api_token', help='x'),", "api_token is not marked as se"),
        (OPTIONS, f"{OPTIONS}cfg.StrOpt('password', help='x'),", "password is not marked as secr"),
        (
            OPTIONS,
            f"{OPTIONS}cfg.StrOpt('x', required=True, default='', help='y'),",
            "required and",
        ),
        (OPTIONS, f"{OPTIONS}cfg.StrOpt('x'),", "option x has no help"),
        (OPTIONS, f"{OPTIONS}cfg.StrOpt('X', help='y'),", "option X is not in lower case"),
        (DEVICES, f"{DEVICES}    def problem(self): return ()\n", "did you mean 'problems'?"),
        (DEVICES, f"{DEVICES}    def mark_initialised(self, service): ...\n", "'mark_initialized'"),
        ("OPTIONS = (", "OPTION = (", "OPTION is not in the contract, did you mean 'OPTIONS'?"),
        (DEVICES, f"{DEVICES}    cache = {{}}\n", "cache is shared by all objects of the class"),
        (
            DEVICES,
            f"{DEVICES}    observe = plan = apply = lambda *_: None\n",
            "it has observe, plan, apply and is no Reconciler",
        ),
    ],
)
def test_suspicious_class_is_loaded_with_a_warning(
    site: Site, old: str, new: str, warning: str
) -> None:
    found = warnings_of(site, changed(old, new))
    assert any(warning in each for each in found), found


def test_good_driver_has_no_warnings(site: Site) -> None:
    secret = "cfg.StrOpt('token', secret=True, help='x'), cfg.StrOpt('key', help='Path of it.'),"
    assert warnings_of(site, changed(OPTIONS, f"{OPTIONS}{secret}")) == []


def test_name_in_upper_case_has_a_warning(site: Site) -> None:
    (warning,) = warnings_of(site, GOOD, name="Acme")
    assert warning.startswith("its name is not in lower case")


RECONCILER = GOOD.replace("Acme(InterfaceDriver)", "Acme(Reconciler, InterfaceDriver)").replace(
    "\nclass Acme",
    "\nfrom netfw.drivers.reconciler import Reconciler\nclass Acme",
)
PARTS = """
    def observe(self, scope): return {}
    def plan(self, update, observed): ...
    def apply(self, plan, checkpoint): ...
"""


@pytest.mark.parametrize(
    ("converge", "warns"),
    [
        (CONVERGE, True),
        ("    def converge(self, update): return super().converge(update)\n", False),
        ("    def converge(self, update): return self._two(update)\n"
         "    def _two(self, update): return self.plan(update, None)\n", False),
        ("", False),
    ],
)  # fmt: skip
def test_reconciler_whose_converge_does_not_plan_has_a_warning(
    site: Site, converge: str, warns: bool
) -> None:
    found = warnings_of(site, RECONCILER.replace(CONVERGE, converge) + PARTS)
    assert [each[:35] for each in found] == ["its converge neither calls plan nor"] * warns


def test_capability_that_is_not_declared_has_a_warning(site: Site) -> None:
    install(site, RECONCILER.replace(CONVERGE, "    def watch(self, sink): ...\n") + PARTS)
    driver = create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())
    assert list(capability_warnings(driver)) == [
        "it is a Reconciler and does not declare HostCapability.PLAN",
        "it overrides watch and does not declare HostCapability.WATCH",
    ]


@pytest.mark.spec("DRV-11")
def test_driver_that_describes_itself_by_another_name_is_suspicious(site: Site) -> None:
    install(site, GOOD)
    driver = create(InterfaceDriver, "acme", {"switch": "s"}, LocalHostResources())
    assert not list(description_warnings("acme", driver))
    (warning,) = description_warnings("other", driver)
    assert warning.startswith("it is registered as 'other' and describes itself as 'acme'")


@pytest.mark.spec("DRV-11")
@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ("netfw.interface_driver", "did you mean 'netfw.interface_drivers'?"),
        ("netwf.dhcp_drivers", "did you mean 'netfw.dhcp_drivers'?"),
        ("netfw_type_drivers", "did you mean 'netfw.type_drivers'?"),
        ("netfw.qqqqqqqqq", "its groups are netfw.api_extensions, netfw.core_plugins"),
    ],
)
def test_entry_point_in_a_misspelt_group_is_named(site: Site, group: str, problem: str) -> None:
    site.install("m", GOOD, name="acme", distribution="acme-net", cls="Acme", group=group)
    known = [contract.GROUP for contract in all_contracts()]
    (point,) = misplaced_points(known)
    assert (point.name, point.origin) == ("acme", "acme-net 1.2")
    assert problem in point.problem


@pytest.mark.parametrize(
    "group",
    ["neutron.service_plugins", "netfw.conformance", "netfw.mechanism_drivers.adapters"],
)
def test_groups_for_other_things_than_drivers_are_left_alone(site: Site, group: str) -> None:
    site.install("m", GOOD, name="acme", distribution="a", cls="A", group=group)
    assert misplaced_points([contract.GROUP for contract in all_contracts()]) == []
