"""Convert declarations of extensions and drivers into those of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

from netfw.drivers.server.api_extension import Action, ApiExtension, ResourceDeclaration
from netfw.drivers.server.attribute import Attribute, AttributeType, Value, plain
from netfw.errors import ConfigError
from netfw.model.wire.codec import ABSENT, Absent, Codec, Json, Listed, Nullable
from netfw.model.wire.scalars import ADDRESS, DOCUMENT, ID, MAC, PREFIX, TEXT, integer
from netfw.server.api.resources.common import STANDARD, read_only
from netfw.server.api.schema.request_codecs import FLAG, checked, long_text
from netfw.server.api.schema.resource_schema import (
    ADMIN,
    NETWORK_OWNER,
    ApiAction,
    ApiAttribute,
    ApiResource,
    Verb,
)

TEXT_LENGTH = 4095
LIST_LENGTH = 256

_CODECS: Mapping[AttributeType, Codec[Any]] = {
    AttributeType.TEXT: long_text(TEXT_LENGTH),
    AttributeType.INTEGER: integer(-(2**63), 2**63 - 1),
    AttributeType.BOOLEAN: FLAG,
    AttributeType.UUID: ID,
    AttributeType.ADDRESS: ADDRESS,
    AttributeType.PREFIX: PREFIX,
    AttributeType.MAC: MAC,
    AttributeType.TEXTS: Listed(long_text(TEXT_LENGTH), limit=LIST_LENGTH),
    AttributeType.OBJECT: DOCUMENT,
    AttributeType.OBJECTS: Listed(DOCUMENT, limit=LIST_LENGTH),
}
_SCALARS = frozenset(AttributeType) - {
    AttributeType.TEXTS,
    AttributeType.OBJECT,
    AttributeType.OBJECTS,
}
_AS_TEXT = frozenset({AttributeType.UUID, AttributeType.ADDRESS, AttributeType.PREFIX})


def attribute(declared: Attribute) -> ApiAttribute:
    """Convert an attribute that a plug-in declares."""
    scalar = declared.type in _SCALARS
    return ApiAttribute(
        name=declared.name,
        codec=_codec(declared),
        create=declared.settable,
        update=declared.mutable,
        required=declared.required,
        default=_default(declared),
        filterable=declared.filterable,
        sortable=declared.filterable and scalar,
        checks=_checks(declared),
        secret=declared.admin_only,
    )


def _checks(declared: Attribute) -> Mapping[Verb, str]:
    if declared.admin_only:
        return {Verb.CREATE: ADMIN, Verb.UPDATE: ADMIN, Verb.SHOW: ADMIN}
    if declared.network_owner_only:
        return {Verb.CREATE: NETWORK_OWNER, Verb.UPDATE: NETWORK_OWNER}
    return {}


def resources(extension: ApiExtension) -> tuple[ApiResource, ...]:
    """Return the resources that *extension* declares, with their policy."""
    alias = extension.info().alias
    rules = {rule.name: rule.check for rule in extension.policies()}
    return tuple(_resource(declared, alias, rules) for declared in extension.resources())


def _resource(declared: ResourceDeclaration, alias: str, rules: Mapping[str, str]) -> ApiResource:
    own = [attribute(each) for each in declared.attributes]
    taken = sorted({each.name for each in own} & {each.name for each in STANDARD})
    if taken:
        raise ConfigError(
            f"API extension {alias!r}: {declared.name} declares {', '.join(taken)}, "
            "which every resource has"
        )
    parent_attribute = "" if declared.parent is None else f"{declared.parent}_id"
    if parent_attribute and parent_attribute not in {each.name for each in own}:
        own.append(read_only(parent_attribute, TEXT))
    return ApiResource(
        name=declared.name,
        collection=declared.collection,
        attributes=(*STANDARD, *(_ruled(each, declared.name, rules) for each in own)),
        verbs=declared.verbs,
        listed=Verb.SHOW in declared.verbs,
        member_shown=Verb.SHOW in declared.verbs,
        checks={verb: rules.get(f"{verb}_{declared.name}", ADMIN) for verb in Verb},
        actions=tuple(_action(each, rules) for each in declared.actions),
        parent=declared.parent,
        parent_attribute=parent_attribute,
        tags=True,
        quota=None if declared.quota is None else declared.name,
        default_quota=declared.quota,
        alias=alias,
    )


def _ruled(given: ApiAttribute, resource: str, rules: Mapping[str, str]) -> ApiAttribute:
    """Return *given* with the extension's own rules."""
    own = {
        verb: rules[f"{verb}_{resource}:{given.name}"]
        for verb in Verb
        if f"{verb}_{resource}:{given.name}" in rules
    }
    return evolve(given, checks={**given.checks, **own})


def _action(declared: Action, rules: Mapping[str, str]) -> ApiAction:
    return ApiAction(
        name=declared.name,
        attributes=tuple(attribute(each) for each in declared.attributes),
        check=rules.get(declared.name, ADMIN),
    )


def _codec(declared: Attribute) -> Codec[Any]:
    codec = _CODECS[declared.type]
    if declared.check is not None:
        codec = checked(codec, _on_values(declared.check, declared.type))
    return Nullable(codec) if declared.nullable else codec


def _on_values(check: Callable[[Value], None], type: AttributeType) -> Callable[[Any], None]:
    """Adapt *check* of a plug-in, which takes an id or an address as text."""
    return (lambda value: check(str(value))) if type in _AS_TEXT else check


def _default(declared: Attribute) -> Json | Absent:
    value = declared.default
    if not declared.settable or declared.required:
        return ABSENT
    if value is None:
        return None if declared.nullable else ABSENT
    return plain(value)
