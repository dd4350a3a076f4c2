"""What the API says of a resource, once: attributes, verbs, actions, policy, place in the URL.

Plain data.  The controller compiles it into validators, the policy into rules, the documentation
into tables.  A vendor's :class:`~netfw.drivers.api_extension.ApiExtension` becomes the same values.

Policy is written in the language of oslo.policy.  Check strings may name these rules, which the
policy defines: ``rule:admin``, ``rule:member`` (an administrator, or who may write in the project
that owns the target), ``rule:reader`` (who may read there), ``rule:network_owner`` (who may write
in the project of the target's network), ``rule:service`` (another service of the cloud, or an
administrator), ``rule:anybody`` (whoever is authenticated), ``rule:network_device`` (the target's
``device_owner`` begins with ``network:``).  Of what :attr:`ApiResource.parents` names, attributes
of the parent can be asked for: ``project_id:%(network:project_id)s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.api_extension import ExtensionInfo, Verb
from netfw.model.wire import Json
from netfw.model.wire.codec import ABSENT, Absent, Codec

__all__ = ["ApiAction", "ApiAttribute", "ApiResource", "ExtensionInfo", "Verb"]

ALL = frozenset(Verb)
READ = frozenset({Verb.SHOW})

ADMIN = "rule:admin"
MEMBER = "rule:member"
READER = "rule:reader"
ANYBODY = "rule:anybody"
NETWORK_OWNER = "rule:network_owner"
SERVICE = "rule:service"


@frozen(kw_only=True)
class ApiAttribute:
    """One attribute of a resource, or of the body of an action."""

    name: str
    codec: Codec[Any]
    """Reads what a request says; what it renders is what the plugin gets."""
    create: bool = True
    """May be given when the resource is made."""
    update: bool = True
    """May be changed afterwards."""
    required: bool = False
    """A create request without it is refused."""
    default: Json | Absent = ABSENT
    """What a create request without it gets; absent: the plugin decides."""
    filterable: bool = True
    sortable: bool = False
    shown: bool = True
    """Part of answers; what is not is only ever given."""
    checks: Mapping[Verb, str] = field(factory=dict)
    """Who may give it, change it or see it, where not everybody who may do so to the resource.

    The rule of a verb is named ``<verb>_<resource>:<attribute>``.  That of create is asked only
    when a request gives another value than the default.
    """
    secret: bool = False
    """Who may see it of no row may not look for rows by it either, which would tell.

    Of our own attributes none is: clients look for ports by hosts that they are not shown.
    """
    inner: Mapping[str, Mapping[Verb, str]] = field(factory=dict)
    """The same for names within an object, or objects: ``create_port:fixed_ips:ip_address``."""
    note: str = ""
    """A sentence for the documentation, where the name does not say it all."""

    def __attrs_post_init__(self) -> None:
        if self.required and not self.create:
            raise ValueError(f"{self.name}: required, and yet nobody may give it")


@frozen(kw_only=True)
class ApiAction:
    """A member action: ``<method> /v2.0/<collection>/<id>/<name>``.

    Its rule is named like the action, or ``<name>_<resource>`` where the name alone says too
    little: see :attr:`rule`.
    """

    name: str
    attributes: tuple[ApiAttribute, ...] = ()
    """Of its body."""
    exclusive: tuple[str, ...] = ()
    """Exactly one of these must be given."""
    method: str = "PUT"
    check: str = ADMIN
    rule: str = ""
    """The name of its policy rule; empty: the name of the action."""
    envelope: str | None = None
    """The key under which its body, and its answer, stand; ``None``: they are the document."""
    shows: bool = False
    """It answers with the resource itself, of which everybody sees what policy lets him see."""

    @property
    def rule_name(self) -> str:
        return self.rule or self.name


@frozen(kw_only=True)
class ApiResource:
    """One resource: its place in the URL, its attributes, and who may do what to it."""

    name: str
    """By which plugins know it, and which its rules and events have."""
    collection: str
    """In the URL."""
    singular: str = field()
    """The key of one in a body; unless said otherwise the name."""
    plural: str = field()
    """The key of many; unless said otherwise the collection with underscores."""
    attributes: tuple[ApiAttribute, ...]
    verbs: frozenset[Verb] = ALL
    listed: bool = True
    """``GET`` of the collection is served; of a member: :attr:`member_shown`."""
    member_shown: bool = True
    checks: Mapping[Verb, str] = field(factory=dict)
    """Who may do it; a verb without one is for administrators.  Named ``<verb>_<name>``."""
    actions: tuple[ApiAction, ...] = ()
    parent: str | None = None
    """The resource of which it is a sub-resource: ``/v2.0/<parents>/<id>/<collection>``.

    Plugins get the id of the parent as attribute and filter :attr:`parent_attribute`, and as the id
    of a member ``<parent id>/<id>``.
    """
    parent_attribute: str = ""
    parents: Mapping[str, str] = field(factory=dict)
    """Resources whose owners matter to policy, by name, and the attribute that holds their id."""
    identity: str = "id"
    """The attribute that stands in the URL of a member."""
    enveloped: bool = True
    """The body of a create or update request has the singular key around it."""
    bulk: bool = True
    """Several can be made by one request."""
    tags: bool = False
    shows_as: str | None = None
    """Its members are shown as this other resource, where it only says which belong together."""
    quota: str | None = None
    """The name under which it is counted; ``None``: not counted."""
    default_quota: int | None = None
    """How many a project may have where the operator says nothing; ``None``: as he says for all."""
    alias: str = ""
    """The extension that declares it, for messages; empty: the API itself."""

    @singular.default
    def _named(self) -> str:
        return self.name

    @plural.default
    def _collected(self) -> str:
        return self.collection.replace("-", "_")

    def __attrs_post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{self.name} declares {', '.join(twice)} twice")
        if bool(self.parent) != bool(self.parent_attribute):
            raise ValueError(f"{self.name}: a parent, and the attribute with its id, go together")

    def check(self, verb: Verb) -> str:
        """Who may do *verb*."""
        return self.checks.get(verb, ADMIN)

    def attribute(self, name: str) -> ApiAttribute | None:
        """The attribute of that name, if it has one."""
        return next((each for each in self.attributes if each.name == name), None)
