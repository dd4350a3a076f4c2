"""DHCP options that a user requested."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import field, frozen

from netfw.model.values.text_validation import check_dhcp_option_name, check_dhcp_option_value
from netfw.model.values.validation import Problem, Validated, checked_by, repeated


@frozen(kw_only=True)
class DhcpOption(Validated):
    """One option, by name or number, for one family of addresses."""

    name: str = field(validator=checked_by(check_dhcp_option_name))
    """Before it, ``tag:ipxe,`` or ``tag:!ipxe,``: for clients that boot by iPXE, or that do not.
    Whether there are other tags is up to the driver."""
    value: str = field(validator=checked_by(check_dhcp_option_value))
    """Several values have commas between them.  Empty: the option is not sent at all."""
    ip_version: int = 4

    @property
    def code(self) -> str:
        """The name or number alone."""
        return self.name.rpartition(",")[2]

    @property
    def tags(self) -> tuple[str, ...]:
        """The conditions before it, as in ``!ipxe``."""
        return tuple(tag.removeprefix("tag:") for tag in self.name.split(",")[:-1])

    def _problems(self) -> Iterator[Problem]:
        if self.ip_version not in (4, 6):
            yield "ip_version", f"neither 4 nor 6: {self.ip_version}"


def repeated_options(options: tuple[DhcpOption, ...]) -> Iterator[Problem]:
    """Yield a fault of ``dhcp_options`` for each repeated option, whatever its value."""
    for at in repeated(tuple((option.name, option.ip_version) for option in options)):
        yield f"dhcp_options[{at}]", f"a second {options[at].name!r}"
