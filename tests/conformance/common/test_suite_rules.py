"""How the suites speak to the vendor who subclasses them."""

import subprocess
import sys

import pytest

from netfw.plan import Outcome
from netfw.testing import conformance
from netfw.testing.conformance.common.host_driver import missing_hooks

pytestmark = pytest.mark.fakes


@pytest.mark.parametrize("name", conformance.__all__)
def test_suite_can_be_imported_from_the_package(name):
    suite = getattr(conformance, name)
    assert suite.__name__ == name
    assert any(member.startswith("test") for member in dir(suite))


def test_package_import_loads_no_unrequested_suite():
    asked = (
        "import sys; from netfw.testing.conformance import InterfaceDriverConformance;"
        "print(sorted(m for m in sys.modules if m.startswith('netfw.testing.conformance.s')))"
    )
    ran = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == "[]"


def test_a_name_that_is_no_suite_is_no_attribute():
    with pytest.raises(AttributeError, match="NoSuite"):
        conformance.NoSuite  # noqa: B018


def test_all_hooks_that_are_missing_are_named_at_once_and_before_any_test():
    with pytest.raises(TypeError) as caught:
        type("TestMine", (conformance.InterfaceDriverConformance,), {"vanish": print})
    message = str(caught.value)
    assert message.startswith("TestMine ")
    for hook in ("make_driver", "actual", "make_foreign", "foreign_is_intact", "outage", "admit"):
        assert hook in message
    for there in ("vanish", "examples", "changed"):
        assert there not in message


def test_a_suite_that_is_not_collected_may_be_unfinished():
    half = type("MyConformance", (conformance.InterfaceDriverConformance,), {"vanish": print})
    assert "vanish" not in missing_hooks(half)
    assert "actual" in missing_hooks(half)


class Looking(conformance.InterfaceDriverConformance):
    """A machine on which every key is seven."""

    def actual(self, key, value):
        return 7


class Holder:
    def present(self):
        return {"a", "b"}


def test_what_is_wrong_is_said_in_sentences():
    suite = Looking()
    complaints = {
        "a should be gone and is still there:\n  7": lambda: suite.assert_gone({"a": 1}),
        "a should be\n  1\nand is\n  7": lambda: suite.assert_so({"a": 1}),
        "c should be present and is not": lambda: suite.assert_held(Holder(), {"a", "b", "c"}),
        "b should not be present and is": lambda: suite.assert_held(Holder(), {"a"}),
        "a should be done and waits: tea": lambda: suite.assert_done(Outcome(waiting={"a": "tea"})),
    }
    for sentence, complain in complaints.items():
        with pytest.raises(AssertionError) as caught:
            complain()
        assert str(caught.value).startswith(sentence)
