"""Resources as API and message bodies, and back.

Names and forms are those of the OpenStack Networking API v2; :data:`CODECS` declares them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from netfw.errors import InvalidInput
from netfw.model.resource import Kind, Resource, kind_of
from netfw.model.wire.codec import CodecError, Json
from netfw.model.wire.resource_codecs import CODECS

__all__ = ["CODECS", "Json", "parse", "render"]


def parse(
    kind: Kind,
    body: object,
    aliases: Collection[str] = (),
    given: Mapping[str, Any] | None = None,
) -> Resource:
    """Return the resource that *body* describes.

    :param aliases: further names that the caller has replaced by those of the API.
    :param given: values of fields that *body* does not have.
    :raises InvalidInput: everything that is wrong with it, each with its path
        (``fixed_ips[0].ip_address``); a fault of the body as a whole has the path of its kind.
    """
    try:
        return cast(Resource, CODECS[kind].parse(body, aliases, given))
    except CodecError as exc:
        raise InvalidInput(exc.problems) from exc
    except ValueError as exc:
        raise InvalidInput({kind.value: str(exc)}) from exc


def render(resource: Resource) -> dict[str, Any]:
    """Return *resource* as a body: only str, int, bool, None, list and dict."""
    return CODECS[kind_of(resource)].render(resource)
