"""Every error netfw raises on purpose.

NetfwError
├── ConfigError              the configuration is wrong; fix it and start again
│   └── DriverError          the plug-in itself is at fault; fix the installation
│       ├── DriverNotFound   no entry point of that name
│       └── DriverInvalid    the entry point is not the kind of driver it claims to be
├── RequestError             the caller requested something impossible; never retry
│   ├── InvalidInput         the value itself is wrong; every fault is named with its path
│   │   └── PartlyInvalid    the parts that it names are left out; the rest is in force
│   ├── NotFound             what the request names does not exist
│   │   └── TagNotFound      it has no such tag
│   ├── Conflict             it contradicts something that already exists
│   │   ├── InUse            something else uses it
│   │   ├── Exhausted        a quota is used up, or a pool
│   │   │   ├── OverQuota    the project may not have more
│   │   │   └── ResourceExhausted  the operator must provide more
│   │   └── Outdated         it was meant for another revision of the resource
│   ├── Unauthorized         the requester is not authenticated
│   ├── Forbidden            the requester may not do that
│   └── NotSupported         this driver does not have that capability
├── BackendError             the machine refused; the cause is in __cause__
│   ├── BackendUnavailable   no answer; retry with back-off
│   │   └── BackendLocked    another instance holds the lock; retry
│   ├── OperationRefused     operations of a plan were refused; observe again first
│   └── BackendBroken        it fails the same way until an operator repairs the machine
├── DriverCrashed            a driver raised what no contract allows; contained to its keys
├── AgentMustEnd             an event after which the configuration ends the agent
└── CursorLost               the source lost that cursor; read a snapshot instead

The modules of this package declare the refusals of one area each: classes below these, by the names
that clients know.  :mod:`netfw.errors.registry` finds them.

``retryable`` is read by the agent loop alone, and only the REST layer maps classes to status codes.
Foreign exceptions are translated in the toolboxes (``netfw.linux``, ``netfw.ovs``), nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import ClassVar, Self

_SHORT = 120
"""Characters of an operation that come before its reason in a message."""


class NetfwError(Exception):
    """Base of every error netfw raises on purpose."""

    retryable: ClassVar[bool] = False


class ConfigError(NetfwError):
    """The configuration is wrong; the message says what to change."""


class DriverError(ConfigError):
    """A plug-in cannot be used."""


class DriverNotFound(DriverError):
    """Nothing is installed under that name."""

    def __init__(self, group: str, name: str, known: Iterable[str]) -> None:
        self.group, self.name, self.known = group, name, tuple(sorted(known))
        super().__init__(
            f"no driver {name!r} in {group}{nearest(name, self.known)}; "
            f"installed: {', '.join(self.known) or 'none'}"
        )


class DriverInvalid(DriverError):
    """An entry point was found but does not give a usable driver."""


class RequestError(NetfwError):
    """The request is wrong; a retry does not help."""

    api_type: ClassVar[str] = "BadRequest"
    """The type in responses of the API: the name of the class, unless the class declares another.

    Clients map it to exceptions; the docstring of the class is its cause in the documentation.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "api_type" not in vars(cls):
            cls.api_type = cls.__name__


class InvalidInput(RequestError):
    """The value of one or more attributes is wrong.

    ``problems`` maps the path of each to its error.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.problems = dict(problems)
        super().__init__("; ".join(f"{path}: {text}" for path, text in self.problems.items()))

    def within(self, path: str) -> Self:
        """Return the same error for a value at *path*: each of its paths begins with it."""
        return type(self)({f"{path}.{each}": text for each, text in self.problems.items()})


def merge_invalid(errors: Sequence[InvalidInput]) -> InvalidInput:
    """Return one error with the problems of *errors*; the first of them decides its class."""
    problems: dict[str, str] = {}
    for each in errors:
        problems |= each.problems
    return type(errors[0])(problems)


class PartlyInvalid(InvalidInput):
    """Parts of a value are left out; the rest is in force.

    ``problems`` says why.
    """


class NotFound(RequestError):
    """The named object does not exist."""

    resource: ClassVar[str] = ""
    """Name of the resource whose absence the class reports; empty: of any."""


class TagNotFound(NotFound):
    """The resource has no such tag."""


class Conflict(RequestError):
    """The request contradicts something that already exists."""


class InUse(Conflict):
    """Something else uses the resource: remove that first."""

    resource: ClassVar[str] = ""
    """Name of the resource whose use the class reports; empty: of any."""


class Exhausted(Conflict):
    """A quota, or a pool of numbers, is used up."""


class OverQuota(Exhausted):
    """The project has used up its quota."""


class ResourceExhausted(Exhausted):
    """A pool that the operator configures is used up; the request may succeed later."""


class Outdated(Conflict):
    """The request names another revision than the present one of the resource."""

    api_type = "RevisionNumberConstraintFailed"


class Unauthorized(RequestError):
    """The requester is not authenticated.

    The message and *challenge* name the method to use.
    """

    def __init__(self, message: str, challenge: str = "Token") -> None:
        self.challenge = challenge
        super().__init__(message)


class Forbidden(RequestError):
    """The requester may see the resource, but not do that with it."""

    api_type = "PolicyNotAuthorized"


class NotSupported(RequestError):
    """The server or a driver does not have this capability."""

    api_type = "HTTPBadRequest"


class BackendError(NetfwError):
    """OVS, the kernel or a helper process refused or failed."""


class BackendUnavailable(BackendError):
    """The backend did not answer; it may answer later."""

    retryable = True


class BackendLocked(BackendUnavailable):
    """Another instance holds the lock; nothing was done."""


class OperationRefused(BackendError):
    """The backend refused some operations; their stage had no effect.

    ``reasons`` maps each refused operation, as far as the backend names it, to its reason.
    """

    retryable = True

    def __init__(self, reasons: Mapping[object, str]) -> None:
        self.reasons = dict(reasons)
        super().__init__("; ".join(_refused(str(each), why) for each, why in reasons.items()))


def _refused(operation: str, why: str) -> str:
    """Return both in one line, the reason first if the operation is long."""
    return f"{operation}: {why}" if len(operation) <= _SHORT else f"{why} (refused: {operation})"


class BackendBroken(BackendError):
    """The machine lacks something, or is in a state that only an operator can repair."""


class DriverCrashed(NetfwError):
    """A driver raised something that no contract allows; the original is the ``__cause__``."""

    retryable = True


class AgentMustEnd(NetfwError):
    """An event after which the configuration ends the agent; the message names it."""


class CursorLost(NetfwError):
    """The source has no history since that cursor; take a snapshot."""

    retryable = True


LONGEST_NAME = 64
"""Longer names have no similar ones; to search for them takes time."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion like ``, did you mean 'vxlan'?``, or empty text if no name is near."""
    found = find_nearest(name, known)
    return "" if found is None else f", did you mean {found!r}?"


def find_nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *name* may be a misspelling of."""
    if len(name) > LONGEST_NAME:
        return None
    close = get_close_matches(name, list(known), n=1)
    return close[0] if close else None
