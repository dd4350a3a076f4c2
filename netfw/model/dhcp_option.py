"""DHCP options that a person asked for."""

from __future__ import annotations

from attrs import field, frozen

from netfw.model.check import Checked, checked_by
from netfw.model.text import check_dhcp_option_name, check_text


@frozen(kw_only=True)
class DhcpOption(Checked):
    """One option, by name or number, for one family of addresses."""

    name: str = field(validator=checked_by(check_dhcp_option_name))
    value: str = field(validator=checked_by(check_text))
    ip_version: int = 4
