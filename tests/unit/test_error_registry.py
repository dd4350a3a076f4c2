"""Registry of errors: every declared class has a type, a cause, and a place by its resource."""

from __future__ import annotations

import pytest

from netfw.errors import Forbidden, InUse, InvalidInput, NotFound, Outdated, RequestError
from netfw.errors.networks import NetworkInUse, NetworkNotFound
from netfw.errors.registry import error_classes, in_use, not_found
from netfw.errors.routers import FloatingIPNotFound
from netfw.model.resource import Kind

REFUSALS = [each for each in error_classes().values() if issubclass(each, RequestError)]


@pytest.mark.spec("API-04")
@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
def test_a_refusal_has_a_cause_of_its_own(kind: type[RequestError]) -> None:
    own = vars(kind).get("__doc__")
    assert own, f"{kind.__name__} has no docstring, which is the cause in the documentation"
    assert own.partition("\n")[0].endswith(".")


@pytest.mark.spec("API-04")
def test_the_type_is_the_name_of_the_class_unless_declared() -> None:
    assert NetworkNotFound.api_type == "NetworkNotFound"
    assert (Outdated.api_type, Forbidden.api_type) == (
        "RevisionNumberConstraintFailed",
        "PolicyNotAuthorized",
    )

    class Stale(Outdated):
        """A subclass does not inherit the declared type."""

    assert Stale.api_type == "Stale"


@pytest.mark.spec("API-04")
def test_the_errors_of_a_resource_are_found_by_its_name() -> None:
    assert not_found(Kind.FLOATING_IP) is FloatingIPNotFound
    assert (not_found("network"), in_use("network")) == (NetworkNotFound, NetworkInUse)


def test_a_resource_without_declared_errors_has_classes_of_its_own() -> None:
    missing, used = not_found("load_balancer"), in_use("load_balancer")
    assert (missing.api_type, used.api_type) == ("LoadBalancerNotFound", "LoadBalancerInUse")
    assert issubclass(missing, NotFound)
    assert issubclass(used, InUse)
    assert not_found("load_balancer") is missing
    assert "LoadBalancerNotFound" not in error_classes()


def test_a_refusal_keeps_its_class_when_its_paths_get_a_prefix() -> None:
    class Odd(InvalidInput):
        """A value is odd."""

    error = Odd({"a": "is odd", "b": "too"}).within("ports[1]")
    assert type(error) is Odd
    assert error.problems == {"ports[1].a": "is odd", "ports[1].b": "too"}
