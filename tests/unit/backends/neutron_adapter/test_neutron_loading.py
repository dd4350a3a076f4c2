"""Which drivers of Neutron are loaded, with which configuration, and which are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netfw.drivers.registry.loader import catalogue, create, registrations
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.drivers.server.mechanism import MechanismDriver
from netfw.errors import ConfigError, DriverInvalid
from netfw_drivers.neutron_adapter.driver import adapt
from tests.unit.backends.neutron_adapter.conftest import HEAD, Load

pytestmark = [pytest.mark.spec("ML2-12"), pytest.mark.slow]

OPTIONS = """
from oslo_config import cfg
cfg.CONF.register_opts([cfg.StrOpt("address"), cfg.StrOpt("user")], group="acme_switch")
"""


def test_a_driver_reads_its_options_from_its_own_files(load: Load, tmp_path: Path) -> None:
    files = [tmp_path / "one.conf", tmp_path / "two.conf"]
    files[0].write_text("[acme_switch]\naddress = 192.0.2.1\n")
    files[1].write_text("[acme_switch]\nuser = admin\n")
    driver = load(
        "        group = cfg.CONF.acme_switch\n"
        "        self.calls += [group.address, group.user, *cfg.CONF.config_file]\n",
        head=OPTIONS + HEAD,
        config_files=list(map(str, files)),
    )
    assert driver._driver.calls == ["192.0.2.1", "admin", *map(str, files)]


def test_a_file_that_cannot_be_read_is_refused(load: Load, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config_files: .*/absent.conf cannot be read"):
        load("", config_files=[str(tmp_path / "absent.conf")])


def test_a_file_that_is_no_configuration_is_refused(load: Load, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.conf"
    wrong.write_text("nothing\n")
    with pytest.raises(ConfigError, match=r"config_files: .*wrong\.conf"):
        load("", config_files=[str(wrong)])


def test_the_files_must_be_named_even_if_there_are_none(load: Load) -> None:
    load("")
    with pytest.raises(ConfigError, match="config_files must be set"):
        create(MechanismDriver, "acme", {}, LocalHostResources())


def test_a_listed_driver_is_not_imported(load: Load) -> None:
    load("")
    del sys.modules["acme_driver"]
    (found,) = [each for each in catalogue(MechanismDriver) if each.name == "acme"]
    (registered,) = [each for each in registrations(MechanismDriver) if each.name == "acme"]
    assert (registered.distribution, registered.version, found.error) == ("acme-ml2", "1.2", None)
    assert found.foreign_group == "neutron.ml2.mechanism_drivers"
    assert "acme_driver" not in sys.modules


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("import nothing_like_this\n", "'acme' cannot be imported: ModuleNotFoundError"),
        ("class Acme:\n    pass\n", "is not a subclass of neutron_lib.plugins.ml2.api."),
        (
            "from neutron.plugins.ml2.drivers import mech_agent\n"
            "class Acme(mech_agent.SimpleAgentMechanismDriverBase):\n    pass\n",
            "uses the base class neutron.plugins.ml2.drivers.mech_agent."
            "SimpleAgentMechanismDriverBase, which netfw does not have",
        ),
        (
            f"{HEAD}        raise OSError('no switch')\n",
            "be initialized: OSError: no switch",
        ),
        (
            f"{HEAD}        from neutron_lib.callbacks import registry\n"
            "        registry.subscribe(print, 'subports', 'after_create')\n",
            "it subscribes to callbacks of Neutron (after_create of subports)",
        ),
        (f"{HEAD}    def start_rpc_listeners(self): pass\n", "it starts RPC listeners"),
        (f"{HEAD}    def get_workers(self): return [1]\n", "it needs worker processes"),
    ],
)
def test_a_driver_that_cannot_work_is_refused_at_load_with_the_reason(
    load: Load, head: str, reason: str
) -> None:
    with pytest.raises(DriverInvalid) as found:
        load("", head=head)
    assert reason in str(found.value)
    assert "'acme'" in str(found.value)


def test_a_driver_is_loaded_without_what_is_missing_if_the_operator_says_so(load: Load) -> None:
    load("\n    def start_rpc_listeners(self):\n        pass\n", ignore_missing=True)


def test_modules_of_an_installed_neutron_are_its_own(load: Load, tmp_path: Path) -> None:
    package = tmp_path / "neutron" / "db"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").write_text("")
    (package / "base.py").write_text("class Base:\n    installed = True\n")
    (package / "provisioning_blocks.py").write_text("raise AssertionError\n")
    driver = load(
        "        self.calls.append(self.installed)\n"
        "        from neutron.db import provisioning_blocks\n"
        "        self.calls.append(provisioning_blocks.__spec__.loader)\n",
        head="from neutron.db.base import Base\n" + HEAD.replace("(api", "(Base, api"),
    )
    installed, blocks = driver._driver.calls
    assert installed
    assert type(blocks).__name__ == "NeutronModuleFinder"


def test_a_trunk_driver_can_be_made(load: Load) -> None:
    head = "from neutron.services.trunk.drivers import base\n" + HEAD
    load("        base.DriverBase('acme', (), (), None, can_trunk_bound_port=True)\n", head=head)


def test_without_neutron_lib_the_operator_learns_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in sys.modules if each.startswith("netfw_drivers.neutron_adapter.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "neutron_lib.callbacks", None)
    driver = adapt("acme")
    with pytest.raises(ConfigError, match=r"written for Neutron: install netfw\[neutron\]"):
        driver.from_conf({"config_files": [], "ignore_missing": False}, LocalHostResources())
