"""The generated pages of contracts have all values, hooks and promises that a vendor needs."""

from __future__ import annotations

import re

import pytest
from attrs import fields

from netfw.drivers.base import Driver
from netfw.drivers.firewall import FilteredPort, Member
from netfw.drivers.host_driver import HostDriver
from netfw.drivers.interface import Attachment
from netfw.drivers.reconciler import Reconciler
from netfw.drivers.registry.loader import all_contracts
from netfw.model.binding import VifDetails
from netfw.model.port import Port
from netfw.model.segment import Provider, Segment
from netfw.plan import Operation, Outcome, Plan, Stage, Update
from netfw.testing import conformance
from netfw.testing.conformance.common.promises import promises_of
from tests import ROOT

PAGES = ROOT / "docs" / "contracts"


def section(page: str, name: str) -> str:
    """Return the part of *page* under the heading of a value."""
    found = re.search(
        rf"^### {name}$(.*?)(?=^#|\Z)", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert found, f"{page} has no {name}"
    return found[1]


def page_of(contract: type[Driver]) -> str:
    return (PAGES / f"{contract.GROUP.removeprefix('netfw.')}.md").read_text()


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize(
    ("page", "value"),
    [
        ("interface_drivers.md", Attachment),
        ("firewall_drivers.md", FilteredPort),
        ("firewall_drivers.md", Member),
        *[
            ("values.md", value)
            for value in (
                *(Segment, Provider, VifDetails, Port),
                *(Operation, Stage, Plan, Update, Outcome),
            )
        ],
    ],
)
def test_every_field_of_a_value_is_on_its_page(page: str, value: type) -> None:
    text = section(page, value.__name__)
    missing = [each.name for each in fields(value) if f"* `{each.name.lstrip('_')}: " not in text]
    assert not missing


@pytest.mark.spec("DRV-31")
@pytest.mark.parametrize("contract", all_contracts(), ids=lambda each: each.__name__)
def test_page_has_the_hooks_of_the_suite_with_signatures(contract: type[Driver]) -> None:
    suite = getattr(conformance, f"{contract.__name__}Conformance")
    hooks = page_of(contract).partition("## Hooks of the suite")[2]
    listed = {name for each in suite.__mro__ for name in vars(each).get("HOOKS", ())}
    assert not [name for name in listed if f"* `{name}(" not in hooks]
    assert re.search(r"^\* `(make|shared)_\w+\(", hooks, re.MULTILINE)


@pytest.mark.parametrize("contract", all_contracts(), ids=lambda each: each.__name__)
def test_page_has_all_promises_inherited_ones_included(contract: type[Driver]) -> None:
    page = page_of(contract)
    bases = [
        base for base in contract.__mro__[1:] if issubclass(base, Driver) and base is not Driver
    ]
    for base in bases:
        assert f"## Promises of every {base.__name__}" in page
    if issubclass(contract, HostDriver):
        assert "`plan` is pure" in page
    count = sum(
        promise.what.isdigit()
        for each in (contract, *bases, *([Reconciler] if issubclass(contract, HostDriver) else []))
        for promise in promises_of(each)
    )
    promises = page.partition("\n## describe")[0]
    assert len(re.findall(r"^\d+\. ", promises, re.MULTILINE)) >= count


def test_links_to_shared_values_lead_to_headings() -> None:
    headings = {
        name.lower()
        for name in re.findall(r"^### (\w+)$", (PAGES / "values.md").read_text(), re.MULTILINE)
    }
    linked = {
        name
        for page in PAGES.glob("*.md")
        for name in re.findall(r"values\.md#(\w+)", page.read_text())
    }
    assert linked
    assert linked <= headings
