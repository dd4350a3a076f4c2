"""Codec: messages as fields for JSON.  Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from netfw.drivers.support.error_codec import decode_error, encode_error
from netfw.drivers.transport import Message
from netfw.errors import BackendBroken, NetfwError

_TEXTS = ("topic", "method", "version", "request_id")


def from_message(message: Message) -> dict[str, Any]:
    """Encode a message; a text body stays text, which takes less space than base64."""
    fields: dict[str, Any] = {name: getattr(message, name) for name in _TEXTS}
    try:
        fields["text"] = message.body.decode()
    except UnicodeDecodeError:
        fields["base64"] = base64.b64encode(message.body).decode()
    return fields


def to_message(fields: Mapping[str, Any]) -> Message:
    """Decode the message in *fields*.

    :raises ValueError: they are not a message.
    """
    if not all(isinstance(fields.get(name), str) for name in (*_TEXTS, _body(fields))):
        raise ValueError("this is no message of netfw")
    try:
        if _body(fields) == "text":
            body = fields["text"].encode()
        else:
            body = base64.b64decode(fields["base64"], validate=True)
    except (binascii.Error, UnicodeEncodeError) as exc:
        raise ValueError("the body of a message cannot be read") from exc
    return Message(body=body, **{name: fields[name] for name in _TEXTS})


def from_error(error: BaseException) -> dict[str, Any]:
    """Encode an error as an answer."""
    return {"error": encode_error(error).decode()}


def to_answer(fields: object) -> Message | NetfwError:
    """Decode an answer of a server."""
    if not isinstance(fields, dict):
        return BackendBroken("the server answered what is no message")
    error = fields.get("error")
    if isinstance(error, str):
        return decode_error(error.encode(errors="replace"))
    try:
        return to_message(fields)
    except ValueError as exc:
        return BackendBroken(f"the server's answer cannot be read: {exc}")


def _body(fields: Mapping[str, Any]) -> str:
    return "text" if "text" in fields else "base64"
