"""Declarations of API resources: attributes, verbs, actions, policy, URL.

Plain data.  The controller compiles it into validators, the policy into rules, the documentation
into tables.  A vendor's :class:`~netfw.drivers.server.api_extension.ApiExtension` becomes the
same values.

Policy is written in the language of oslo.policy.  Check strings may name these rules, which the
policy defines: ``rule:admin``, ``rule:member`` (an administrator, or a requester with write access
to the project that owns the target), ``rule:reader`` (read access), ``rule:network_owner`` (write
access to the project of the target's network), ``rule:service`` (another service of the cloud, or
an administrator), ``rule:regular_user`` (every authenticated requester), ``rule:network_device``
(the target's ``device_owner`` begins with ``network:``).  A rule can read attributes of the parents
that :attr:`ApiResource.parents` names: ``project_id:%(network:project_id)s``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from netfw.drivers.server.api_extension import ExtensionInfo, Verb
from netfw.errors import InvalidInput
from netfw.model.wire import Json
from netfw.model.wire.codec import ABSENT, Absent, Codec

__all__ = ["ApiAction", "ApiAttribute", "ApiResource", "ExtensionInfo", "Verb"]

ALL = frozenset(Verb)
READ = frozenset({Verb.SHOW})

ADMIN = "rule:admin"
MEMBER = "rule:member"
READER = "rule:reader"
REGULAR_USER = "rule:regular_user"
NETWORK_OWNER = "rule:network_owner"
SERVICE = "rule:service"


@frozen(kw_only=True)
class ApiAttribute:
    """One attribute of a resource, or of the body of an action."""

    name: str
    codec: Codec[Any]
    """Parses the value of a request; the plugin gets what it renders."""
    create: bool = True
    """Accepted in create requests."""
    update: bool = True
    """Accepted in update requests."""
    required: bool = False
    """A create request without it is refused."""
    default: Json | Absent = ABSENT
    """The value in a create request without it; absent: the plugin decides."""
    filterable: bool = True
    sortable: bool = False
    shown: bool = True
    """Part of responses; otherwise write-only."""
    checks: Mapping[Verb, str] = field(factory=dict)
    """Rules for setting, changing or seeing it that are stricter than those of the resource.

    The rule of a verb is named ``<verb>_<resource>:<attribute>``.  That of create is evaluated only
    for a value other than the default.
    """
    secret: bool = False
    """A requester that sees it in no row cannot filter by it either, which would disclose it.

    None of netfw's own attributes is secret: clients filter ports by hosts that they do not see.
    """
    inner: Mapping[str, Mapping[Verb, str]] = field(factory=dict)
    """The same for keys of an object or objects: ``create_port:fixed_ips:ip_address``."""
    error: type[InvalidInput] = InvalidInput
    """The error for an invalid value."""
    note: str = ""
    """A sentence for the documentation."""
    needs: str = ""
    """The resource without which the attribute is not served; empty: none."""

    def __attrs_post_init__(self) -> None:
        if self.required and not self.create:
            raise ValueError(f"{self.name}: required, and yet not accepted in create requests")


@frozen(kw_only=True)
class ApiAction:
    """A member action: ``<method> /v2.0/<collection>/<id>/<name>``.

    Its rule is named like the action, or as :attr:`rule` says.
    """

    name: str
    attributes: tuple[ApiAttribute, ...] = ()
    """Attributes of its body."""
    exclusive: tuple[str, ...] = ()
    """Attributes of which exactly one must be given."""
    method: str = "PUT"
    check: str = ADMIN
    rule: str = ""
    """The name of its policy rule; empty: the name of the action."""
    envelope: str | None = None
    """The key of its body and response; ``None``: they have no envelope."""
    response_key: str | None = None
    """The key of its response, for an action whose body has no envelope."""
    shows: bool = False
    """Its response is the resource, filtered by policy."""

    @property
    def shown_key(self) -> str | None:
        """The key of its response; ``None``: it has none."""
        return self.envelope or self.response_key

    @property
    def rule_name(self) -> str:
        return self.rule or self.name


@frozen(kw_only=True)
class ApiResource:
    """One resource: URL, attributes and policy."""

    name: str
    """The name in plugins and events."""
    policy_name: str = field()
    """The name in policy rules; by default the name."""
    collection: str
    """The collection in the URL."""
    prefix: str = ""
    """The part of the URL before the collection: ``/v2.0/<prefix>/<collection>``; empty: none."""
    singular: str = field()
    """The key of one resource in a body; by default the name."""
    plural: str = field()
    """The key of several resources; by default the collection with underscores."""
    attributes: tuple[ApiAttribute, ...]
    verbs: frozenset[Verb] = ALL
    listed: bool = True
    """Whether ``GET`` of the collection is served; of a member: :attr:`member_shown`."""
    member_shown: bool = True
    one_per_project: bool = False
    """Whether each project has one member, whose URL has the id of the project, or ``None`` for the
    requester's.

    Rules are evaluated for that project before the plugin is called: ``GET`` may make the member.
    """
    dry_run: str = ""
    """The field with which ``GET`` only checks whether the member could be made; empty: none.

    Plugins get it as a member action of that name, whose result is shown as the member.
    """
    checks: Mapping[Verb, str] = field(factory=dict)
    """Rules by verb, named ``<verb>_<policy name>``; a verb without one is for administrators."""
    actions: tuple[ApiAction, ...] = ()
    parent: str | None = None
    """The resource of which it is a sub-resource: ``/v2.0/<parents>/<id>/<collection>``.

    Plugins get the id of the parent as attribute and filter :attr:`parent_attribute`, and as the id
    of a member ``<parent id>/<id>``.
    """
    parent_attribute: str = ""
    parents: Mapping[str, str] = field(factory=dict)
    """Resources that rules can refer to, by name, and the attribute with the id of each."""
    identity: str = "id"
    """The attribute in the URL of a member."""
    enveloped: bool = True
    """Whether the body of a create or update request has an envelope with the singular key."""
    bulk: bool = True
    """Whether one request can create several."""
    tags: bool = False
    shows_as: str | None = None
    """The other resource that its members are shown as, for a resource that is only a relation."""
    quota: str | None = None
    """The name of its quota; ``None``: none."""
    default_quota: int | None = None
    """The quota of a project without configuration; ``None``: the configured default."""
    alias: str = ""
    """The alias of the extension that declares it, for messages; empty: the API itself."""

    @policy_name.default
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
        if self.parent and self.prefix:
            raise ValueError(f"{self.name}: the prefix of a sub-resource is that of its parent")

    @property
    def path(self) -> str:
        """The collection in the URL, with its prefix."""
        return f"{self.prefix}/{self.collection}" if self.prefix else self.collection

    def check(self, verb: Verb) -> str:
        """Return the check of *verb*."""
        return self.checks.get(verb, ADMIN)

    def attribute(self, name: str) -> ApiAttribute | None:
        """Return the attribute of that name, or ``None``."""
        return next((each for each in self.attributes if each.name == name), None)
