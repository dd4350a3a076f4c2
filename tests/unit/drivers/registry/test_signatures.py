from collections.abc import Callable

import pytest

from netfw.drivers.registry.signatures import mismatches


class Contract:
    def verb(self, thing: int, *, fast: bool = False) -> None: ...


def driver(method: Callable[..., object]) -> type:
    return type("Vendor", (Contract,), {"verb": method})


@pytest.mark.parametrize(
    "method",
    [
        lambda self, thing, *, fast=False: None,
        lambda self, thing, fast=False: None,
        lambda self, *args, **kwargs: None,
        lambda self, thing, extra=None, **kwargs: None,
    ],
)
def test_what_takes_the_contracts_call_fits(method: Callable[..., object]) -> None:
    assert mismatches(Contract, driver(method)) == ()


@pytest.mark.parametrize(
    "method",
    [
        lambda self: None,
        lambda self, thing: None,
        lambda self, thing, more, *, fast=False: None,
        lambda self, other, *, fast=False: None,
        lambda self, thing, *, fast=False, needed: None,
    ],
)
def test_what_does_not_is_named(method: Callable[..., object]) -> None:
    (sentence,) = mismatches(Contract, driver(method))
    assert sentence.endswith("cannot be called as verb(self, thing, *, fast=False)")
