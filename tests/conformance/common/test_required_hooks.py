"""How the suites of the server's drivers speak to the vendor who subclasses them."""

import pytest

from netfw.testing import conformance
from netfw.testing.conformance.common.call_counter import count_calls

pytestmark = pytest.mark.fakes


@pytest.mark.parametrize(
    ("suite", "hooks"),
    [
        ("TypeDriverConformance", ["make_driver", "requests", "impossible", "mtus"]),
        ("MechanismDriverConformance", ["make_environment", "bindable"]),
        ("IpamDriverConformance", ["make_driver"]),
    ],
)
def test_all_hooks_that_are_missing_are_named_before_any_test(suite: str, hooks: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        type("TestMine", (getattr(conformance, suite),), {})
    message = str(caught.value)
    assert message.startswith(f"TestMine lacks hooks: override {', '.join(hooks)};")
    assert message.endswith(getattr(conformance, suite).__module__)
    type("Unfinished", (getattr(conformance, suite),), {})


def test_work_without_end_is_given_up() -> None:
    def endless() -> None:
        while True:
            sum(1 for _ in range(10))

    with pytest.raises(AssertionError, match="more than 1000 calls"):
        count_calls(endless, 1000)
    assert count_calls(lambda: sum(1 for _ in range(10)), 1000) < 20
