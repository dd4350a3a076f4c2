"""ApiExtension: declares resources of the API that netfw does not know."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import ClassVar

from attrs import frozen

from netfw.drivers.attribute import Attribute
from netfw.drivers.base import Driver


class Verb(enum.StrEnum):
    """What can be done to a resource."""

    CREATE = "create"
    SHOW = "get"
    UPDATE = "update"
    DELETE = "delete"


@frozen(kw_only=True)
class Action:
    """A member action: ``PUT /v2.0/<collection>/<id>/<name>``."""

    name: str
    attributes: tuple[Attribute, ...] = ()
    """Of its body."""
    returns: tuple[Attribute, ...] = ()


@frozen(kw_only=True)
class ResourceDeclaration:
    """One resource: its place in the URL, its attributes and what can be done to it."""

    name: str
    collection: str
    attributes: tuple[Attribute, ...]
    """Beyond those that every resource has: id, project, description, revision, times, tags."""
    parent: str | None = None
    """The resource it is a sub-resource of."""
    verbs: frozenset[Verb] = frozenset(Verb)
    actions: tuple[Action, ...] = ()
    quota: int | None = None
    """How many a project may have unless somebody says otherwise; ``None``: not counted."""

    def __attrs_post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name} declares an attribute twice: {sorted(names)}")


@frozen(kw_only=True)
class PolicyRule:
    """Who may do something, in the language of oslo.policy."""

    name: str
    """``create_<resource>``, ``get_<resource>:<attribute>``."""
    check: str
    description: str


@frozen(kw_only=True)
class ExtensionInfo:
    """The extension as ``/v2.0/extensions`` shows it."""

    alias: str
    name: str
    description: str
    updated: str
    """When the declaration last changed, as a client reads it: 2024-05-01T00:00:00Z."""


class ApiExtension(Driver):
    """Declares resources, and attributes of other extensions' resources, with their policy.

    It only declares: what happens is up to the service plugin, or the extension driver, that has
    the same resources.  Read once, by one thread, when the server starts, outside any
    transaction; what it raises keeps the server from starting.  Promises:

    1. All answers are constant.
    2. An alias, a collection or an attribute that somebody else declared makes the server refuse
       to start, naming both.  Nothing is overridden silently.
    3. Every resource has a policy rule for each of its verbs and actions; one without is refused
       to everybody but an administrator.
    4. Requests are validated against the declaration before any plugin sees them.
    """

    GROUP: ClassVar[str] = "netfw.api_extensions"
    VERSION: ClassVar[int] = 1

    @abstractmethod
    def info(self) -> ExtensionInfo:
        """How clients find it."""

    @abstractmethod
    def resources(self) -> tuple[ResourceDeclaration, ...]:
        """The resources it adds to the API."""

    def policies(self) -> tuple[PolicyRule, ...]:
        """Who may do what with them, unless the operator's file says otherwise."""
        return ()

    def requires(self) -> frozenset[str]:
        """Aliases without which it makes no sense; the server refuses to start without them."""
        return frozenset()
