"""Tests of the Acme driver beyond the contract."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from acme_netfw.interface import AcmeInterfaceDriver

from netfw.drivers.interface import Attachment
from netfw.drivers.registry.local_host_resources import LocalHostResources
from netfw.errors import BackendBroken, NotSupported
from netfw.model import PortId
from netfw.plan import Update

PORT = PortId(UUID(int=1))
WANTED = Attachment(device="tap1", mac="fa:16:3e:00:00:01")


def make_driver(path: Path) -> AcmeInterfaceDriver:
    return AcmeInterfaceDriver.from_conf({"switch": str(path)}, LocalHostResources())


def test_a_namespace_is_refused_for_that_port_alone(tmp_path: Path) -> None:
    in_namespace = Attachment(device="tap2", mac="fa:16:3e:00:00:02", netns="qdhcp-1")
    two = PortId(UUID(int=2))
    driver = make_driver(tmp_path / "switch.json")
    outcome = driver.converge(Update(put={PORT: WANTED, two: in_namespace}))
    assert outcome.done == {PORT}
    assert isinstance(outcome.failed[two], NotSupported)


@pytest.mark.parametrize("text", ["not json", "[]", '{"tap1": 7}', '{"tap1": {"colour": "red"}}'])
def test_an_unreadable_state_is_a_broken_backend_and_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "switch.json"
    path.write_text(text)
    with pytest.raises(BackendBroken, match="not the state of an Acme switch"):
        make_driver(path).converge(Update(put={PORT: WANTED}))
    assert path.read_text() == text


def test_a_missing_switch_is_a_problem_with_its_remedy(tmp_path: Path) -> None:
    assert make_driver(tmp_path / "switch.json").problems() == ()
    (problem,) = make_driver(tmp_path / "nowhere" / "switch.json").problems()
    assert "set its path in [acme] switch" in problem


BUSY = """
import sys
from pathlib import Path
from test_acme import PORT, WANTED, make_driver
from netfw.plan import Update

driver = make_driver(Path(sys.argv[1]))
while True:
    driver.converge(Update(put={PORT: WANTED}))
    driver.converge(Update(drop=frozenset({PORT})))
    print("round", flush=True)
"""


def test_a_driver_recovers_from_a_predecessor_killed_at_work(tmp_path: Path) -> None:
    path = tmp_path / "switch.json"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    argv = [sys.executable, "-c", BUSY, str(path)]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE) as victim:
        assert victim.stdout is not None
        for _ in range(20):
            assert victim.stdout.readline()
        victim.kill()
    driver = make_driver(path)
    assert driver.converge(Update(put={PORT: WANTED}, complete=True)).ok
    assert driver.devices()[PORT].name == "tap1"
