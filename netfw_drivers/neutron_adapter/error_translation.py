"""Errors of neutron-lib drivers as errors of netfw."""

from __future__ import annotations

from typing import Final

from neutron_lib import exceptions

from netfw.errors import (
    BackendBroken,
    BackendUnavailable,
    Conflict,
    DriverCrashed,
    Forbidden,
    NetfwError,
    NotFound,
    NotSupported,
    RequestError,
    ResourceExhausted,
)

_REFUSALS: Final[tuple[tuple[type[Exception], type[RequestError]], ...]] = (
    (exceptions.BadRequest, RequestError),
    (exceptions.Invalid, RequestError),
    (exceptions.NotFound, NotFound),
    (exceptions.Conflict, Conflict),
    (exceptions.InUse, Conflict),
    (exceptions.NotAuthorized, Forbidden),
    (exceptions.ResourceExhausted, ResourceExhausted),
)
_DEFECTS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
)
"""Errors that a retry does not repair."""
_DATABASE: Final = ("oslo_db", "sqlalchemy")


def precommit_error(name: str, exc: Exception) -> NetfwError:
    """Return the error of a request that the driver *name* refuses before the commit."""
    if (known := _known(name, exc)) is not None:
        return known
    if isinstance(exc, exceptions.ServiceUnavailable):
        return BackendUnavailable(_text(name, exc))
    return DriverCrashed(_text(name, exc))


def postcommit_error(name: str, exc: Exception) -> NetfwError:
    """Return the error of a delivery: an outage is retried, a refusal or defect is not."""
    if (known := _known(name, exc)) is not None:
        return known
    if isinstance(exc, _DEFECTS):
        return BackendBroken(f"{_text(name, exc)} (a defect of the driver; the log has more)")
    return BackendUnavailable(_text(name, exc))


def load_reason(exc: BaseException) -> str:
    """Return why a driver cannot be loaded."""
    if isinstance(exc, NetfwError):
        return str(exc)
    return _database_use(exc) or f"{type(exc).__name__}: {exc}"


def _known(name: str, exc: Exception) -> NetfwError | None:
    if isinstance(exc, NetfwError):
        return exc
    if text := _database_use(exc):
        return NotSupported(f"mechanism driver {name!r} {text}")
    for theirs, ours in _REFUSALS:
        if isinstance(exc, theirs):
            return ours(_text(name, exc))
    return None


def _database_use(exc: BaseException) -> str:
    packages = {kind.__module__.partition(".")[0] for kind in type(exc).__mro__}
    if packages.isdisjoint(_DATABASE):
        return ""
    return f"uses Neutron's database, which netfw does not have ({type(exc).__name__}: {exc})"


def _text(name: str, exc: Exception) -> str:
    if isinstance(exc, exceptions.NeutronException):
        return f"mechanism driver {name!r}: {exc}"
    return f"mechanism driver {name!r}: {type(exc).__name__}: {exc}"
