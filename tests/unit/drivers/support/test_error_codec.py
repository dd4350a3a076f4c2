"""Errors that travel arrive as they were, and nothing else does."""

import json

import pytest

from netfw import errors
from netfw.drivers.support.error_codec import decode_error, encode_error
from netfw.errors.registry import error_classes

EXAMPLES = {
    errors.DriverNotFound: errors.DriverNotFound("netfw.things", "a", ["b"]),
    errors.InvalidInput: errors.InvalidInput({"port.name": "is tøø long", "b": "no"}),
    errors.PartlyInvalid: errors.PartlyInvalid({"route": "is impossible"}),
    errors.OperationRefused: errors.OperationRefused({"add": "is full"}),
}


@pytest.mark.parametrize("kind", error_classes().values(), ids=lambda kind: kind.__name__)
def test_every_error_arrives_as_the_same_class_with_the_same_text(kind):
    problem = {"name": "is wrong"} if issubclass(kind, errors.InvalidInput) else "what is wrong"
    sent = EXAMPLES.get(kind) or kind(problem)
    arrived = decode_error(encode_error(sent))
    assert type(arrived) is kind
    assert str(arrived) == str(sent)
    for detail in ("problems", "reasons"):
        assert getattr(arrived, detail, None) == getattr(sent, detail, None)


def test_error_class_unknown_to_the_caller_arrives_as_a_known_one():
    class PortGone(errors.NotFound):
        pass

    assert type(decode_error(encode_error(PortGone("port 7")))) is errors.NotFound
    newer = {"classes": ["BrandNew", "Conflict", "RequestError"], "text": "no"}
    assert type(decode_error(json.dumps(newer).encode())) is errors.Conflict


def test_what_is_no_error_of_netfw_arrives_without_its_details():
    for error in (ValueError("the password is 1234"), KeyError("1234"), SystemExit("1234")):
        arrived = decode_error(encode_error(error))
        assert type(arrived) is errors.BackendBroken
        assert "1234" not in str(arrived)


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"[]", b"7", b'"x"', b"{}", b"[" * 100_000, b'{"classes": 7, "text": ""}',
     b'{"classes": [[1], {}], "text": []}', b'{"classes": ["NotFound"], "text": "", "problems": 3}',
     b'{"classes": ["ValueError", "NETFW", "nearest"], "text": "x"}'],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_all_the_same(body):
    assert type(decode_error(body)) is errors.BackendBroken
