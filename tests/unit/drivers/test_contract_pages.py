"""The page of a contract has all that a vendor needs of netfw.drivers."""

from __future__ import annotations

import pytest

from tests import ROOT

PAGES = ROOT / "docs/contracts"


@pytest.mark.parametrize(
    ("page", "values"),
    [
        (
            "api_extensions",
            "ExtensionInfo ResourceDeclaration PolicyRule Attribute AttributeType Value Verb",
        ),
        ("extension_drivers", "Kind Attribute AttributeType Change Body AttributeStore"),
        (
            "mechanism_drivers",
            "Change BindingRequest Binding Bound Partial Refused MechanismCapability",
        ),
        ("type_drivers", "NetworkType Range Pool AllocationStore"),
    ],
)
def test_a_page_shows_the_values_that_its_methods_take_and_give(page: str, values: str) -> None:
    lines = (PAGES / f"{page}.md").read_text().splitlines()
    assert [name for name in values.split() if f"### {name}" not in lines] == []


def test_fields_are_shown_with_their_defaults_and_what_is_said_of_them() -> None:
    text = (PAGES / "api_extensions.md").read_text()
    assert "* `required: bool = False`: A create request without it is refused.\n" in text
    assert "* `SHOW = 'get'`\n" in text
