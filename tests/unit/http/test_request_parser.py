"""Headers of requests as bytes."""

from __future__ import annotations

import io

import pytest

from netfw.http.request_parser import read_headers


def read(text):
    return read_headers(io.BytesIO(text + b"\r\n"))


@pytest.mark.spec("API-13", "API-16")
def test_a_name_with_an_underscore_is_not_taken_for_one_with_a_hyphen():
    text = b"x-roles: reader\r\nX_Roles: admin\r\nx_roles: admin\r\nHost: h\r\n"
    assert read(text) == {b"X-Roles": b"reader", b"Host": b"h"}


def test_lists_are_joined():
    assert read(b"Accept: a\r\naccept:b \r\n") == {b"Accept": b"a, b"}


@pytest.mark.spec("API-13", "API-16")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"X-Roles: a\r\nX-ROLES: admin\r\n", "X-Roles is given twice"),
        (b"Content-Length: 1\r\nContent-Length: 1\r\n", "Content-Length is given twice"),
        (b"X-Roles: a\r\n admin\r\n", "no name"),
        (b" X-Roles: admin\r\n", "no name"),
        (b"X-Roles : admin\r\n", "no name"),
        (b"X-Roles\r\n", "no name"),
        (b": admin\r\n", "no name"),
        (b"X-Roles: a\nX-User-Id: b\r\n", "does not end"),
        (b"X-Roles: a\rb\r\n", "control characters"),
        (b"X-Roles: a\x00\r\n", "control characters"),
        (b"X-Roles: a\n", "does not end"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(text, words):
    with pytest.raises(ValueError) as refusal:
        read(text)
    assert words in str(refusal.value)


def test_an_end_in_the_middle_is_refused():
    with pytest.raises(ValueError, match="does not end"):
        read_headers(io.BytesIO(b"Host: h\r\n"))
