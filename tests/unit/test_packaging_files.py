"""Files of the Debian package and of the containers fit the programs and each other."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from tests import ROOT

PACKAGING = ROOT / "packaging"
DEBIAN = PACKAGING / "debian"
CONTAINERS = PACKAGING / "containers"
CONF = sorted((PACKAGING / "conf").glob("*.conf"))


def options(path: Path) -> dict[str, set[str]]:
    parser = configparser.RawConfigParser(default_section="-")
    parser.read(path)
    return {group: set(parser[group]) for group in parser.sections()}


@pytest.mark.spec("DRV-48")
@pytest.mark.parametrize("path", CONF, ids=lambda path: path.stem)
def test_options_of_the_package_are_options_of_the_program(path: Path) -> None:
    sample = (ROOT / "samples" / "conf" / path.name).read_text()
    for group, names in options(path).items():
        (text,) = re.findall(rf"^\[{group}\]$(.*?)(?=^\[|\Z)", sample, re.MULTILINE | re.DOTALL)
        for name in names:
            assert f"\n#{name} =" in text, f"[{group}] {name}"


def test_every_unit_has_a_configuration_file_and_the_package_its_users() -> None:
    script = (DEBIAN / "netfw.postinst").read_text()
    names = set()
    for unit in (PACKAGING / "systemd").glob("*.service"):
        service = unit.read_text()
        names.add(re.findall(r"/etc/netfw/(\S+)", service)[0])
        for user in re.findall(r"^(?:User|SupplementaryGroups)=(\S+)", service, re.MULTILINE):
            assert re.search(rf"for user in .*\b{user}\b", script)
    assert names == {path.name for path in CONF}


def test_the_package_recommends_what_its_containers_have() -> None:
    control = configparser.ConfigParser(interpolation=None)
    control.read_string("[x]\n" + (DEBIAN / "control").read_text().partition("\n\n")[2])
    section = control["x"]
    stated = re.findall(r"[a-z][a-z0-9-]+", section["Recommends"])
    assert set(stated) <= set((CONTAINERS / "host-packages").read_text().split())


def test_services_of_the_site_use_images_and_files_that_are_built() -> None:
    compose = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
    services = compose["services"]
    assert set(services) == {"postgresql", "rabbitmq", "server", "host1", "host2"}
    containerfile = (CONTAINERS / "Containerfile").read_text()
    targets = set(re.findall(r" AS (\S+)$", containerfile, re.MULTILINE))
    images = {each["image"].removeprefix("localhost/") for each in services.values()}
    assert {image.removeprefix("netfw-") for image in images} == targets
    for path in re.findall(r"packaging/containers/(\S+)", containerfile):
        assert (CONTAINERS / path).exists()
    assert compose["networks"]["site"]["internal"] is True
    for script in ("serve", "init", "run-postgresql", "run-rabbitmq"):
        for name in re.findall(r"\$\{?(NETFW_[A-Z_]+)", (CONTAINERS / script).read_text()):
            assert any(name in each["environment"] for each in services.values())
