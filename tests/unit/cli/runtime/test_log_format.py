"""Log lines carry the id of the request, for people and for machines."""

from __future__ import annotations

import io
import json
import logging
import threading

import pytest

from netfw import request_id
from netfw.cli.runtime.log_format import install_formatter


def logged(style, work):
    stream = io.StringIO()
    logger = logging.Logger("netfw.test")
    logger.addHandler(install_formatter(logging.StreamHandler(stream), style))
    work(logger)
    return stream.getvalue()


def test_a_line_for_people_names_the_request():
    with request_id.bind("req-7"):
        line = logged("text", lambda log: log.info("made %s", "a port"))
    assert line.endswith("INFO netfw.test [req-7] made a port\n")


def test_outside_a_request_there_is_no_id():
    assert "[" not in logged("text", lambda log: log.info("made"))
    assert "request_id" not in json.loads(logged("json", lambda log: log.info("made")))


def test_an_object_per_line_has_the_error_with_its_traceback():
    def work(log):
        try:
            raise KeyError("gone\nfar away")
        except KeyError:
            log.exception("two\nlines")

    with request_id.bind("req-7"):
        text = logged("json", work)
    assert text.count("\n") == 1
    line = json.loads(text)
    assert (line["level"], line["message"], line["request_id"]) == ("ERROR", "two\nlines", "req-7")
    assert "KeyError" in line["error"]
    assert "Traceback" in line["error"]


def test_a_request_is_that_of_its_thread():
    seen = []
    with request_id.bind("req-7"):
        thread = threading.Thread(target=lambda: seen.append(request_id.current()))
        thread.start()
        thread.join()
        assert (request_id.current(), seen) == ("req-7", [""])
    assert request_id.current() == ""


@pytest.mark.parametrize("claim", ["", "a b", "x" * 81, "req\n2026 ERROR forged", "ü"])
def test_an_id_that_could_forge_a_line_is_replaced(claim):
    assert request_id.sanitize(claim).startswith("req-")
    assert request_id.sanitize("req-1.2:3_4") == "req-1.2:3_4"
