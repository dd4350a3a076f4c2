"""Encode errors of netfw as bytes, for transports: the caller gets the error of the handler.

Only the classes of :mod:`netfw.errors`, their texts and the arguments of their constructors are
sent, and decoding makes nothing else.
"""

from __future__ import annotations

import json
from typing import Any

from netfw.drivers.support.message_limits import REQUEST_SIZE, REQUEST_VALUES
from netfw.errors import BackendBroken, InvalidInput, NetfwError, OperationRefused
from netfw.errors.registry import error_classes
from netfw.model.values.bounded_json import load_bounded


def encode_error(error: BaseException) -> bytes:
    """Return the message for the caller of a handler that raised *error*.

    An exception that is no error of netfw is a defect of the server; its details are not sent.
    """
    if not isinstance(error, NetfwError):
        error = BackendBroken("the request failed in the server; its log says why")
    document: dict[str, Any] = {"classes": _ancestry(error), "text": str(error)}
    if isinstance(error, InvalidInput):
        document["problems"] = error.problems
    elif isinstance(error, OperationRefused):
        document["problems"] = {str(operation): why for operation, why in error.reasons.items()}
    return json.dumps(document).encode()


def decode_error(body: bytes) -> NetfwError:
    """Return the error that :func:`encode_error` encoded, as the nearest known class."""
    try:
        document: Any = load_bounded(body, size=REQUEST_SIZE, values=REQUEST_VALUES)
        names, text = [str(name) for name in document["classes"]], str(document["text"])
        problems: dict[Any, str] = {
            str(path): str(why) for path, why in dict(document.get("problems", {})).items()
        }
    except (ValueError, KeyError, TypeError):
        return BackendBroken("the server answered with an error that cannot be read")
    known = error_classes()
    kind = next((known[name] for name in names if name in known), BackendBroken)
    made = kind.__new__(kind)
    Exception.__init__(made, text)
    if isinstance(made, InvalidInput):
        made.problems = problems
    elif isinstance(made, OperationRefused):
        made.reasons = problems
    return made


def _ancestry(error: NetfwError) -> list[str]:
    """Return the error's classes, nearest first: another release may know only a base class."""
    known = error_classes()
    return [kind.__name__ for kind in type(error).__mro__ if known.get(kind.__name__) is kind]
