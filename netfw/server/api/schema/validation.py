"""Validators of request bodies, compiled from the declarations of resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from netfw.errors import InvalidInput
from netfw.errors.requests import BadRequest, HTTPBadRequest
from netfw.model.wire import Json
from netfw.model.wire.codec import Absent, CodecError, describe
from netfw.server.api.schema.request_codecs import unknown
from netfw.server.api.schema.resource_schema import ApiAction, ApiAttribute, ApiResource

Read = Callable[[object], Json | Absent]


class Validator:
    """Validates the attributes of a body, and reports all problems at once."""

    def __init__(
        self,
        attributes: Iterable[ApiAttribute],
        allowed: Callable[[ApiAttribute], bool],
        refusal: str,
        *,
        complete: bool,
    ) -> None:
        every = tuple(attributes)
        self._known = {each.name: None for each in every}
        self._refusal = refusal
        self._readers: dict[str, Read] = {
            each.name: _reader(each) for each in every if allowed(each)
        }
        self._errors = {each.name: each.error for each in every}
        self._required = frozenset(each.name for each in every if each.required and complete)
        self._defaults: dict[str, Json] = {}
        self._mutable: list[tuple[str, Json]] = []
        for each in every if complete else ():
            if isinstance(each.default, list | dict):
                self._mutable.append((each.name, each.default))
            elif not isinstance(each.default, Absent):
                self._defaults[each.name] = each.default

    def validate(self, raw: object, where: str) -> dict[str, Json]:
        """Return the attributes of *raw*, normalised.

        :raises InvalidInput: all problems by path; *where* is the path of *raw* itself.  The first
            attribute with an invalid value decides the class.
        :raises HTTPBadRequest: the same, when attributes are missing, unknown or read-only.
        """
        if not isinstance(raw, dict):
            raise HTTPBadRequest({where: f"not an object: {describe(raw)}"})
        attributes: dict[str, Json] = {}
        problems: dict[str, str] = {}
        misfits = self._misfits(raw)
        error: type[InvalidInput] | None = None
        for name, value in raw.items():
            read = self._readers.get(name)
            if read is None:
                continue
            try:
                found = read(value)
            except ValueError as exc:
                error = error or self._errors.get(name, InvalidInput)
                problems |= CodecError.within(name, exc)
                continue
            if not isinstance(found, Absent):
                attributes[name] = found
        misfits |= _merge_project(attributes)
        if misfits:
            raise HTTPBadRequest(misfits | problems)
        if error is not None:
            raise error(problems)
        return attributes

    def _misfits(self, raw: dict[Any, object]) -> dict[str, str]:
        """Return the problems of attributes that are missing, unknown or read-only."""
        problems: dict[str, str] = {}
        for name in raw:
            if name not in self._readers:
                problems |= self._refused(name, len(problems))
        return problems | {name: "is required" for name in self._required if name not in raw}

    def with_defaults(self, attributes: dict[str, Json]) -> dict[str, Json]:
        """Return *attributes* with the defaults of missing attributes."""
        whole = {**self._defaults, **attributes}
        for name, value in self._mutable:
            if name not in whole:
                whole[name] = deepcopy(value)
        return whole

    def _refused(self, name: object, count: int) -> dict[str, str]:
        if isinstance(name, str) and name in self._known:
            return {name: self._refusal}
        return unknown(name, self._known, count)


def _reader(attribute: ApiAttribute) -> Read:
    parse, render = attribute.codec.parse, attribute.codec.render
    return lambda raw: render(parse(raw))


def _merge_project(attributes: dict[str, Any]) -> dict[str, str]:
    """Replace ``tenant_id``, the older name, by ``project_id``; return the problem, if any."""
    if "tenant_id" not in attributes:
        return {}
    tenant = attributes.pop("tenant_id")
    same = attributes.setdefault("project_id", tenant) == tenant
    return {} if same else {"tenant_id": "contradicts project_id"}


def for_create(resource: ApiResource) -> Validator:
    """Return the validator of create requests."""
    return Validator(
        resource.attributes,
        lambda each: each.create,
        "cannot be given when it is made",
        complete=True,
    )


def for_update(resource: ApiResource) -> Validator:
    """Return the validator of update requests."""
    return Validator(
        resource.attributes, lambda each: each.update, "cannot be changed", complete=False
    )


def for_action(action: ApiAction) -> Validator:
    """Return the validator of an action."""
    return Validator(action.attributes, lambda each: True, "", complete=True)


def check_exclusive(action: ApiAction, attributes: dict[str, Json]) -> None:
    """Raise unless exactly one of the exclusive attributes is given.

    :raises BadRequest: names them.
    """
    given = [name for name in action.exclusive if name in attributes]
    if action.exclusive and len(given) != 1:
        names = " or ".join(action.exclusive)
        raise BadRequest({action.exclusive[0]: f"give exactly one of {names}"})
