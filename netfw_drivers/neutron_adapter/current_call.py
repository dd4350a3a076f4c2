"""The call of a neutron-lib driver that this thread makes: stand-ins report to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NoReturn

from attrs import define, field

from netfw.errors import NotSupported


@define(kw_only=True)
class CurrentCall:
    """What the driver *name* does during one call."""

    name: str
    components: set[str] = field(factory=set)
    """Provisioning components that the driver added: it completes the port by itself."""
    warnings: list[str] = field(factory=list)
    """What the driver logged: the reason why it did not bind a port."""


_CURRENT: Final[ContextVar[CurrentCall | None]] = ContextVar("neutron_adapter_call", default=None)


@contextmanager
def calling(name: str) -> Iterator[CurrentCall]:
    """Make a call of the driver *name* the current one of this thread."""
    token = _CURRENT.set(CurrentCall(name=name))
    try:
        call = _CURRENT.get()
        assert call is not None
        yield call
    finally:
        _CURRENT.reset(token)


def current_call() -> CurrentCall | None:
    """Return the current call; ``None``: the driver runs in a thread of its own."""
    return _CURRENT.get()


def refuse(needed: str) -> NoReturn:
    """Refuse what the driver of the current call uses.

    :raises NotSupported: always; names the driver and *needed*.
    """
    call = current_call()
    who = "a mechanism driver of Neutron" if call is None else f"mechanism driver {call.name!r}"
    raise NotSupported(f"{who} uses {needed}, which netfw does not have")
