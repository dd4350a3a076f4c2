"""Sentences of promises: those of every contract, in step with what suites prove."""

from __future__ import annotations

import pytest

from netfw.drivers.base import Driver
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.interface import InterfaceDriver
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.loader import all_contracts
from netfw.testing.conformance.common.promises import promises_of
from netfw.testing.promise_report.sentences import stated_promises


@pytest.mark.parametrize("contract", all_contracts(), ids=lambda each: each.__name__)
def test_every_promise_of_a_contract_has_a_sentence(contract: type[Driver]) -> None:
    stated = {each.promise: each.sentence for each in stated_promises(contract, contract)}
    bases = [base for base in contract.__mro__ if issubclass(base, Driver) and base is not Driver]
    assert stated.keys() == {promise for base in bases for promise in promises_of(base)}
    assert all(stated.values()), stated


def test_sentence_of_an_error_says_which_method_raises_it() -> None:
    stated = {str(each.promise): each for each in stated_promises(HostDriver, HostDriver)}
    sentence = stated["HostDriver.present BackendUnavailable"].sentence
    assert sentence == "present raises BackendUnavailable: the backend does not answer."


def test_promises_of_a_reconciler_are_those_of_its_contract_and_its_own() -> None:
    class Planned(Reconciler, InterfaceDriver):  # type: ignore[type-arg, misc]
        pass

    stated = stated_promises(Planned, InterfaceDriver)
    found = {each.promise.where for each in stated if each.promise.what.isdigit()}
    assert found == {"HostDriver", "Reconciler", "InterfaceDriver"}
    assert {p.promise for p in stated} >= promises_of(HostDriver) | promises_of(Reconciler)
