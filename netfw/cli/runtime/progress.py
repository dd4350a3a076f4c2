"""Progress of long work: one line on standard error, if that is a terminal."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType
from typing import Self, TextIO

_ERASE_LINE = "\r\x1b[K"


class ProgressLine:
    """A line that is rewritten while work goes on, and erased at its end.

    Nothing is written unless *stream* is a terminal: logs and scripts see results and errors only.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty()

    def show(self, text: str) -> None:
        """Replace the line by *text*, cut to the width of the terminal."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"{_ERASE_LINE}{text[:width]}")
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.show("")
