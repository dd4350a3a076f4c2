"""DHCP options that a person asked for."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.check import Checked, Fault, checked_by
from netfw.model.text import check_dhcp_option_name, check_text


@frozen(kw_only=True)
class DhcpOption(Checked):
    """One option, by name or number, for one family of addresses."""

    name: str = field(validator=checked_by(check_dhcp_option_name))
    value: str = field(validator=checked_by(check_text))
    ip_version: int = 4

    def _faults(self) -> Iterator[Fault]:
        if self.ip_version not in (4, 6):
            yield "ip_version", f"neither 4 nor 6: {self.ip_version}"
