"""ApiExtension: declares additional resources of the API."""

from __future__ import annotations

import enum
from abc import abstractmethod
from typing import ClassVar

from attrs import frozen

from netfw.drivers.base import Driver
from netfw.drivers.server.attribute import Attribute


class Verb(enum.StrEnum):
    """An operation on a resource."""

    CREATE = "create"
    SHOW = "get"
    UPDATE = "update"
    DELETE = "delete"


@frozen(kw_only=True)
class Action:
    """A member action: ``PUT /v2.0/<collection>/<id>/<name>``."""

    name: str
    attributes: tuple[Attribute, ...] = ()
    """Attributes of its body."""
    returns: tuple[Attribute, ...] = ()


@frozen(kw_only=True)
class ResourceDeclaration:
    """One resource: its place in the URL, its attributes, verbs and actions."""

    name: str
    collection: str
    attributes: tuple[Attribute, ...]
    """Attributes beyond the common ones: id, project, description, revision, times, tags."""
    parent: str | None = None
    """The resource of which it is a sub-resource; what the server stores is deleted with it."""
    verbs: frozenset[Verb] = frozenset(Verb)
    actions: tuple[Action, ...] = ()
    quota: int | None = None
    """Default quota of a project; ``None``: not counted."""

    def __attrs_post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(names) != len(set(names)):
            raise ValueError(f"{self.name} declares an attribute twice: {sorted(names)}")


@frozen(kw_only=True)
class PolicyRule:
    """A policy rule, in the language of oslo.policy."""

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
    """Time of the last change of the declaration, such as 2024-05-01T00:00:00Z."""


class ApiExtension(Driver):
    """Declares resources, and attributes of other extensions' resources, with their policy.

    It only declares: the service plugin or the extension driver of the same resources implements
    them.  It is read once, by one thread, when the server starts, outside any transaction; if it
    raises, the server does not start.  Promises:

    1. All results are constant, and made without I/O.
    2. If two extensions declare one alias, collection or attribute, the server refuses to start
       and names both.  Nothing is overridden silently.
    3. Every resource has a policy rule for each of its verbs and actions; without a rule, only an
       administrator may use it.
    4. Requests are validated against the declaration before any plugin gets them.
    5. An attribute with a secret is for administrators, or has a policy rule for reading it.
    """

    GROUP: ClassVar[str] = "netfw.api_extensions"
    VERSION: ClassVar[int] = 2

    @abstractmethod
    def info(self) -> ExtensionInfo:
        """Return the description that clients read."""

    @abstractmethod
    def resources(self) -> tuple[ResourceDeclaration, ...]:
        """Return the resources that it adds to the API."""

    def policies(self) -> tuple[PolicyRule, ...]:
        """Return the default policy rules; the operator's policy file overrides them."""
        return ()

    def requires(self) -> frozenset[str]:
        """Return the aliases that it requires; the server refuses to start without them."""
        return frozenset()
