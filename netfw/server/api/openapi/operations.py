"""Operations of the OpenAPI document: what each method does on the paths of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from netfw.model.wire.codec import Schema
from netfw.model.wire.scalars import TAG, TEXT
from netfw.server.api.openapi.schemas import LINKS, action_schema, envelope, ref
from netfw.server.api.query_params import MAX_ROWS, TAG_FILTERS
from netfw.server.api.request_body import MAX_BULK
from netfw.server.api.resources.common import TAGS
from netfw.server.api.schema.resource_schema import ApiAction, ApiAttribute, ApiResource, Verb

Operation = dict[str, Any]

_REVISION: Operation = {
    "name": "If-Match",
    "in": "header",
    "description": "Change this revision only, else 412.",
    "schema": {"type": "string", "pattern": r"^revision_number=\d{1,18}$"},
}
_TAGS = envelope({"tags": TAGS.codec.schema})


@frozen
class ResourceOperations:
    """The operations of one resource, by method in lower case."""

    resource: ApiResource
    schema: str
    """Name of the schema of the resource."""

    def collection(self) -> Operation:
        """Return the operations on the collection."""
        resource, item = self.resource, {}
        if resource.listed and Verb.SHOW in resource.verbs:
            found = {"type": "array", "items": ref(self.schema)}
            links = f"{resource.plural}_links"
            item["get"] = self._operation(
                "List",
                Verb.SHOW,
                {"200": envelope({resource.plural: found, links: LINKS}, links)},
                parameters=[*self._list_parameters()],
            )
        if Verb.CREATE in resource.verbs:
            item["post"] = self._operation(
                "Create",
                Verb.CREATE,
                {"201": self._created()},
                body=self._bodies("Create"),
            )
        return item

    def member(self) -> Operation:
        """Return the operations on one member."""
        resource, item = self.resource, {}
        whole = envelope({resource.singular: ref(self.schema)})
        if resource.member_shown and Verb.SHOW in resource.verbs:
            checked = envelope({resource.singular: {"type": "object"}})
            item["get"] = self._operation(
                "Show",
                Verb.SHOW,
                {"200": {"anyOf": [whole, checked]} if resource.dry_run else whole},
                parameters=[self._member_fields()],
            )
        if Verb.UPDATE in resource.verbs:
            item["put"] = self._operation(
                "Update",
                Verb.UPDATE,
                {"200": whole},
                body=self._enveloped(ref(f"{self.schema}Update")),
                parameters=[_REVISION],
            )
        if Verb.DELETE in resource.verbs:
            item["delete"] = self._operation(
                "Delete", Verb.DELETE, {"204": None}, parameters=[_REVISION]
            )
        return item

    def action(self, action: ApiAction) -> Operation:
        """Return the operation of a member action."""
        result: Schema = ref(self.schema) if action.shows else {"type": "object"}
        if action.shown_key is not None:
            result = envelope({action.shown_key: result})
        body = None if action.method == "GET" else action_schema(action)
        operation = self._described(
            f"Do {action.name}.", action.rule_name, {"200": result}, body=body
        )
        return {action.method.lower(): operation}

    def tags(self) -> Operation:
        """Return the operations on all tags of a member."""
        rule = f"{Verb.UPDATE}_{self.resource.policy_name}"
        shown = f"{Verb.SHOW}_{self.resource.policy_name}"
        return {
            "get": self._described("List the tags.", shown, {"200": _TAGS}),
            "put": self._described("Replace the tags.", rule, {"200": _TAGS}, body=_TAGS),
            "post": self._described("Add tags.", rule, {"201": _TAGS}, body=_TAGS),
            "delete": self._described("Remove all tags.", rule, {"204": None}),
        }

    def tag(self) -> Operation:
        """Return the operations on one tag of a member."""
        rule = f"{Verb.UPDATE}_{self.resource.policy_name}"
        shown = f"{Verb.SHOW}_{self.resource.policy_name}"
        return {
            "get": self._described("Check for a tag.", shown, {"204": None}),
            "put": self._described("Add a tag.", rule, {"201": None}),
            "delete": self._described("Remove a tag.", rule, {"204": None}),
        }

    def _created(self) -> Schema:
        resource = self.resource
        if not resource.enveloped:
            return ref(f"{self.schema}Create")
        return self._with_bulk(ref(self.schema))

    def _bodies(self, suffix: str) -> Schema:
        whole = ref(f"{self.schema}{suffix}")
        return self._with_bulk(whole) if self.resource.enveloped else whole

    def _with_bulk(self, whole: Schema) -> Schema:
        one = self._enveloped(whole)
        if not self.resource.bulk:
            return one
        several = {"type": "array", "items": whole, "minItems": 1, "maxItems": MAX_BULK}
        return {"oneOf": [one, envelope({self.resource.plural: several})]}

    def _enveloped(self, whole: Schema) -> Schema:
        resource = self.resource
        return envelope({resource.singular: whole}) if resource.enveloped else whole

    def _operation(
        self,
        word: str,
        verb: Verb,
        responses: Mapping[str, Schema | None],
        *,
        body: Schema | None = None,
        parameters: list[Operation] | None = None,
    ) -> Operation:
        text = f"{word} {self.resource.plural if word == 'List' else self.resource.name}."
        rule = f"{verb}_{self.resource.policy_name}"
        operation = self._described(text, rule, responses, body=body)
        return {**operation, "parameters": parameters} if parameters else operation

    def _described(
        self,
        summary: str,
        rule: str,
        responses: Mapping[str, Schema | None],
        *,
        body: Schema | None = None,
    ) -> Operation:
        operation: Operation = {
            "tags": [self.resource.name],
            "summary": summary,
            "description": f"Policy rule: `{rule}`.",
            "responses": {
                **{status: _response(schema) for status, schema in responses.items()},
                "default": {"$ref": "#/components/responses/Error"},
            },
        }
        if body is not None:
            operation["requestBody"] = {"required": True, "content": _content(body)}
        return operation

    def _list_parameters(self) -> Iterator[Operation]:
        sortable = sorted(each.name for each in self.resource.attributes if each.sortable)
        for attribute in self.resource.attributes:
            if attribute.filterable and attribute.name not in TAG_FILTERS:
                yield _repeated(attribute.name, _filter_schema(attribute))
        if self.resource.tags:
            for name in TAG_FILTERS:
                yield _query(name, TAG.schema)
        yield self._fields()
        if sortable:
            yield _repeated("sort_key", {"type": "string", "enum": sortable})
            yield _repeated("sort_dir", {"type": "string", "enum": ["asc", "desc"]})
        yield _query("limit", {"type": "integer", "minimum": 0, "maximum": MAX_ROWS})
        yield _query("marker", {"type": "string", "format": "uuid"})
        yield _query("page_reverse", {"type": "boolean"})

    def _fields(self) -> Operation:
        return _repeated("fields", {"type": "string", "enum": self._shown()})

    def _member_fields(self) -> Operation:
        dry_run = self.resource.dry_run
        if not dry_run:
            return self._fields()
        text = f"`{dry_run}`: only check whether the member could be made."
        fields = _repeated("fields", {"type": "string", "enum": [*self._shown(), dry_run]})
        return {**fields, "description": text}

    def _shown(self) -> list[str]:
        return [each.name for each in self.resource.attributes if each.shown]


def _filter_schema(attribute: ApiAttribute) -> Schema:
    """Return the schema of one value of a filter; text that is no value finds nothing."""
    if attribute.codec.schema == {"type": "boolean"}:
        return {"type": "boolean"}
    return TEXT.schema


def _query(name: str, schema: Schema) -> Operation:
    return {"name": name, "in": "query", "schema": schema}


def _repeated(name: str, schema: Schema) -> Operation:
    return {**_query(name, {"type": "array", "items": schema}), "style": "form", "explode": True}


def _content(schema: Schema) -> Operation:
    return {"application/json": {"schema": schema}}


def _response(schema: Schema | None) -> Operation:
    if schema is None:
        return {"description": "Done."}
    return {"description": "OK", "content": _content(schema)}
