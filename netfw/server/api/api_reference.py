"""Generate the API reference from the declarations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from netfw.model.wire.codec import Absent
from netfw.server.api.schema.paths import collection_path
from netfw.server.api.schema.resource_schema import ApiAttribute, ApiResource, Verb

_HEAD = (
    "| attribute | create | update | default | filter | sort |",
    "| --- | --- | --- | --- | --- | --- |",
)


def reference(resources: Iterable[ApiResource]) -> str:
    """Render all resources as Markdown: URLs, verbs and attributes."""
    every = tuple(resources)
    by_name = {each.name: each for each in every}
    lines: list[str] = []
    for each in every:
        lines += ["", f"## {each.name}", "", *_paths(each, by_name), "", *_HEAD]
        lines += [_row(attribute) for attribute in each.attributes]
        lines += _notes(each)
    return "\n".join(lines).lstrip("\n") + "\n"


def _paths(resource: ApiResource, by_name: Mapping[str, ApiResource]) -> Iterator[str]:
    base = collection_path(resource, by_name)
    whole, member = f"`{base}`", f"`{base}/{{{resource.identity}}}`"
    listed = resource.listed and Verb.SHOW in resource.verbs
    is_readable = resource.member_shown and Verb.SHOW in resource.verbs
    on_whole = [*(["GET"] if listed else []), *_words(resource, {"POST": Verb.CREATE})]
    possible = {"PUT": Verb.UPDATE, "DELETE": Verb.DELETE}
    on_member = [*(["GET"] if is_readable else []), *_words(resource, possible)]
    if on_whole:
        yield f"* {whole}: {', '.join(on_whole)}{' (several at once)' if _bulk(resource) else ''}"
    if on_member:
        yield f"* {member}: {', '.join(on_member)}"
    if resource.dry_run:
        yield f"* `{base}/{{{resource.identity}}}?fields={resource.dry_run}`: GET (makes nothing)"
    for action in resource.actions:
        given = ", ".join(f"`{each.name}`" for each in action.attributes)
        yield f"* `{base}/{{{resource.identity}}}/{action.name}`: {action.method} {given}".rstrip()
    if resource.tags:
        yield f"* `{base}/{{{resource.identity}}}/tags`: tags"


def _bulk(resource: ApiResource) -> bool:
    return resource.bulk and Verb.CREATE in resource.verbs


def _words(resource: ApiResource, possible: dict[str, Verb]) -> list[str]:
    return [method for method, verb in possible.items() if verb in resource.verbs]


def _row(attribute: ApiAttribute) -> str:
    create = "required" if attribute.required else _yes(attribute.create)
    default = "" if isinstance(attribute.default, Absent) else f"`{json.dumps(attribute.default)}`"
    cells = (
        f"`{attribute.name}`",
        create,
        _yes(attribute.update),
        default,
        _yes(attribute.filterable),
        _yes(attribute.sortable),
    )
    return f"| {' | '.join(cells)} |"


def _yes(flag: bool) -> str:
    return "yes" if flag else ""


def _notes(resource: ApiResource) -> list[str]:
    notes = [f"* `{each.name}`: {each.note}" for each in resource.attributes if each.note]
    return ["", *notes] if notes else []
