"""A failed test of a suite shows the sentences of the promises that it proves."""

import subprocess
import sys
from pathlib import Path

import pytest

from netfw.drivers.host_driver import HostDriver
from netfw.testing.conformance.common.promises import promise_texts, promises_of, proven_sentences
from netfw.testing.conformance.interface import InterfaceDriverConformance

pytestmark = pytest.mark.fakes

BROKEN = """
from tests.conformance.interface.test_null_interface import TestNullInterfaceDriver as Suite
from netfw_drivers.null.interface import NullInterfaceDriver

class TestBroken(Suite):
    def actual(self, key, value):
        return None
"""


def test_every_numbered_promise_has_its_text():
    texts = promise_texts(HostDriver)
    numbers = {int(each.what) for each in promises_of(HostDriver) if each.what.isdigit()}
    assert texts.keys() == numbers
    assert texts[2] == "promise 2 of HostDriver: Dropping an absent key succeeds."
    assert texts[6].endswith("the next ``converge`` ends in the same state.")


def test_errors_are_sentences_too():
    test = InterfaceDriverConformance.test_devices_raises_when_the_backend_is_unreachable
    (sentence,) = proven_sentences(test)
    assert sentence == "InterfaceDriver.devices raises BackendUnavailable as it documents."


def test_failure_shows_the_promise(tmp_path: Path):
    (tmp_path / "test_broken.py").write_text(BROKEN)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
         str(tmp_path / "test_broken.py"), "-k", "TestBroken and a_changed_value_is_put_right"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "what the driver promises" in ran.stdout
    assert (
        "promise 1 of HostDriver: ``converge`` gives every key of ``put`` its value" in ran.stdout
    )
