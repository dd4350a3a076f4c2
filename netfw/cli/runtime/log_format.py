"""Log formatters: text for people, or one JSON object per line for collectors."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from netfw import request_id

TEXT = "%(asctime)s %(levelname)s %(name)s%(trail)s %(message)s"


class TextFormatter(logging.Formatter):
    """One line of text; the request id, if there is one, precedes the message."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def format(self, record: logging.LogRecord) -> str:
        request_id = getattr(record, "request_id", "")
        record.trail = f" [{request_id}]" if request_id else ""
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, request_id, process; ``error`` has
    the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            "thread": record.threadName,
        }
        if request_id := getattr(record, "request_id", ""):
            line["request_id"] = request_id
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def install_formatter(handler: logging.Handler, style: str) -> logging.Handler:
    """Set the formatter *style* and the request-id filter on *handler*; return it."""
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    handler.addFilter(request_id.log_filter)
    return handler
