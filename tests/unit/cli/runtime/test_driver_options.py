"""Options of drivers that share a group: it has their name."""

from pathlib import Path

import pytest
from oslo_config import cfg

from netfw.cli.runtime.driver_options import Kinds, groups_of
from netfw.conf.loader import Groups, load_config
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.server.notifier import Notifier
from netfw.errors import ConfigError
from tests.unit.drivers.registry.vendor_site import GOOD, Site

pytestmark = pytest.mark.real

NOTIFIER = """
from oslo_config import cfg
from netfw.drivers.base import DriverInfo
from netfw.drivers.server.notifier import Notifier

class Acme(Notifier):
    VERSION = 2
    OPTIONS = ({option},)
    @classmethod
    def from_conf(cls, options, host):
        return cls()
    def describe(self):
        return DriverInfo("acme")
    def concerns(self, change):
        return False
    def notify(self, changes):
        pass
"""
OWN: Groups = {
    "agent": [cfg.StrOpt("interface_driver"), cfg.ListOpt("notifiers", default=[])],
    "database": [cfg.StrOpt("connection", default="")],
}
KINDS: Kinds = {
    ("agent", "interface_driver"): InterfaceDriver,
    ("agent", "notifiers"): Notifier,
}


def options_of(site: Site, option: str, name: str = "acme") -> Groups:
    """Return the options of a program with an interface driver and a notifier of one name."""
    site.install("acme_interface", GOOD, name=name, distribution="acme-net", cls="Acme")
    code = NOTIFIER.format(option=option)
    site.install("acme_n", code, name=name, distribution="n", cls="Acme", group=Notifier.GROUP)
    file = Path(site.directory, "netfw.conf")
    file.write_text(
        f"[agent]\ninterface_driver = {name}\nnotifiers = {name}\n[{name}]\nswitch = s\n"
    )
    argv = ["--config-file", str(file)]
    groups = groups_of("netfw-test", argv, OWN, KINDS)
    load_config("netfw-test", argv, groups)
    return groups


def test_two_drivers_of_one_name_share_an_option_that_means_the_same(site: Site) -> None:
    groups = options_of(site, "cfg.StrOpt('switch', required=True, help='In other words.')")
    assert [option.dest for option in groups["acme"]] == ["switch", "retries"]


@pytest.mark.parametrize(
    ("option", "differing"),
    [
        ("cfg.IntOpt('switch', required=True)", "type"),
        ("cfg.StrOpt('switch', required=True, max_length=3)", "type"),
        ("cfg.StrOpt('switch', default='s1')", "default, required"),
        ("cfg.StrOpt('switch', required=True, secret=True)", "secret"),
    ],
)
def test_two_drivers_of_one_name_with_different_options_of_one_name_are_refused(
    site: Site, option: str, differing: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        options_of(site, option)
    assert str(caught.value) == (
        "[acme] switch: 'acme' of netfw.interface_drivers and 'acme' of netfw.notifiers both "
        f"declare it, with another {differing}: use one of them, or a version of one that renames "
        "its option"
    )


def test_driver_that_is_named_like_a_group_of_netfw_is_refused_if_an_option_differs(
    site: Site,
) -> None:
    with pytest.raises(ConfigError, match=r"\[database\] connection: netfw itself and 'database'"):
        options_of(site, "cfg.IntOpt('connection', default=1)", name="database")
