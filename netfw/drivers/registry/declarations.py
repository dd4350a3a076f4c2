"""Check what a driver class declares: its options, and attributes that belong to the contract."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

from netfw.drivers.base import Driver

if TYPE_CHECKING:
    from oslo_config.cfg import Opt

OF_THE_CONTRACT: Final = ("GROUP", "CAPABILITY_TYPES", "DRAFT")
"""Attributes that a driver inherits and does not declare."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SECRET = re.compile(r"(^|_)(password|passwd|passphrase|secret|token|credentials?|key)$")
_FILE = re.compile(r"\b(path|file)\b", re.IGNORECASE)
_WITHOUT_SECRETS = ("BoolOpt", "IntOpt", "FloatOpt", "PortOpt", "IPOpt", "HostAddressOpt")


def own_value(contract: type[Driver], driver: type[Driver], name: str) -> Any:
    """Return the value that the driver's own classes declare, not that of a contract, or None."""
    for ancestor in driver.__mro__:
        if ancestor is contract:
            break
        if name in vars(ancestor) and not ancestor.__module__.startswith("netfw.drivers."):
            return vars(ancestor)[name]
    return None


def declaration_problems(contract: type[Driver], driver: type[Driver]) -> Iterator[str]:
    """Yield a sentence for each declaration that is wrong for sure."""
    for name in OF_THE_CONTRACT:
        own = own_value(contract, driver, name)
        if own is not None and own != getattr(contract, name):
            yield f"its {name} is {own!r}; it belongs to {contract.__name__}: leave it out"
    if not _are_options(driver.OPTIONS):
        yield f"its OPTIONS are {driver.OPTIONS!r}, not a tuple of oslo.config options"
    else:
        yield from _option_problems(driver.OPTIONS)


def option_warnings(options: Sequence[Opt]) -> Iterator[str]:
    """Yield a sentence for each option that is suspicious."""
    for option in options:
        if option.required and option.default is not None:
            yield f"option {option.name} is required and has a default: it is never missing"
        if not option.help:
            yield f"option {option.name} has no help: operators read it in the sample configuration"
        if option.name != option.name.lower():
            yield f"option {option.name} is not in lower case"
        if not option.secret and _looks_secret(option):
            yield f"option {option.name} is not marked as secret: logs show its value; secret=True"


def _looks_secret(option: Opt) -> bool:
    names_a_file = _FILE.search(option.help or "") is not None
    is_text = type(option).__name__ not in _WITHOUT_SECRETS
    return is_text and not names_a_file and _SECRET.search(option.dest) is not None


def convert(option: Opt, value: Any) -> Any:
    """Return *value* as the type of *option* has it.

    :raises ValueError: it is no value of the option, or `TypeError`.
    """
    if not option.multi:
        return option.type(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError("not a list of values")
    return [option.type(each) for each in value]


def _are_options(options: object) -> bool:
    if options == ():
        return True  # without importing oslo.config
    from oslo_config.cfg import Opt

    return isinstance(options, tuple) and all(isinstance(option, Opt) for option in options)


def _option_problems(options: Sequence[Opt]) -> Iterator[str]:
    for option in options:
        if not _NAME.fullmatch(option.name):
            yield f"{option.name!r} is no name of an option: use letters, digits and underscores"
        elif not option.dest.isidentifier():
            yield f"option {option.name} has the dest {option.dest!r}, which is no Python name"
        if option.positional or type(option).__name__ == "SubCommandOpt":
            yield f"option {option.name} is for a command line; options of drivers are in files"
        elif option.multi and not isinstance(option.default, (list, tuple, NoneType)):
            yield f"the default of option {option.name} is {option.default!r}, not a list"
    counts = Counter(option.dest for option in options)
    for dest in sorted(dest for dest, count in counts.items() if count > 1):
        yield f"it declares the option {dest} {counts[dest]} times (a dash is an underscore)"
