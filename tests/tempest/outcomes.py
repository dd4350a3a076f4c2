"""Turn a subunit stream into lines of JSON: one for each test, with why it did not pass.

Run by the interpreter of Tempest's own environment:  stestr run --subunit | python outcomes.py
"""

from __future__ import annotations

import json
import re
import sys

import subunit
from testtools import StreamResult


class Lines(StreamResult):
    """Writes what became of each test."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, dict[str, bytes]] = {}

    def status(self, test_id=None, test_status=None, **more) -> None:
        if test_id is None:
            return
        name, data = more.get("file_name"), more.get("file_bytes")
        if name and data:
            texts = self.texts.setdefault(test_id, {})
            texts[name] = texts.get(name, b"") + bytes(data)
        if test_status in (None, "exists", "inprogress"):
            return
        texts = self.texts.pop(test_id, {})
        wanted = ("traceback", "reason")
        output = [texts[key] for key in sorted(texts) if key.startswith(wanted)]
        line = {
            "test": re.sub(r"\[.*\]$", "", test_id),
            "status": test_status,
            "output": b"\n".join(output).decode(errors="replace")[-6000:],
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


subunit.ByteStreamToStreamResult(sys.stdin.buffer, non_subunit_name="stdout").run(Lines())
