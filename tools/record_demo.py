"""Record the demo: docs/pictures/demo.svg, an animated picture, and docs/demo.md with its text.

Run as root: `make record`.  The picture is made of the lines that the demo printed and of when it
printed them; waits of more than `LONGEST_WAIT` seconds are shortened.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

PICTURE = Path("docs/pictures/demo.svg")
PAGE = Path("docs/demo.md")
COLUMNS, ROWS = 112, 30
WIDTH, LINE = 7.25, 17
"""Pixels of a column and of a line, with a font of 12 pixels."""
LONGEST_WAIT, LAST_WAIT = 1.5, 6.0
COLOURS = {"1": "b", "2": "d", "31": "r", "32": "g"}
"""Classes of the attributes that the demo prints: bold, dim, red, green."""
_ATTRIBUTE = re.compile(r"\x1b\[(\d*)m")
STYLE = """\
text { white-space: pre; fill: #cfd8dc;
  font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
.b { font-weight: bold; fill: #ffffff; } .d { fill: #78909c; }
.r { fill: #ef5350; } .g { fill: #66bb6a; }"""

Recording = Sequence[tuple[float, str]]
"""Lines, each with the seconds after the start."""


def record(command: Sequence[str]) -> list[tuple[float, str]]:
    """Run *command* on a terminal and return what it prints.

    :raises SystemExit: it fails.
    """
    master, terminal = pty.openpty()
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=terminal, stdin=subprocess.DEVNULL)
    os.close(terminal)
    lines = []
    for line in _lines_of(master):
        print(line, flush=True)
        lines.append((time.monotonic() - started, line))
    os.close(master)
    if process.wait():
        raise SystemExit(f"{command[0]} ended with status {process.returncode}: nothing is written")
    return lines


def _lines_of(terminal: int) -> Iterator[str]:
    rest = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the last program that has the terminal open has ended
            break
        *lines, rest = (rest + data).split(b"\n")
        yield from (line.decode(errors="replace").rstrip("\r") for line in lines)
    if rest:
        yield rest.decode(errors="replace")


def plain(line: str) -> str:
    """Return a line without its attributes."""
    return _ATTRIBUTE.sub("", line)


def spans(line: str) -> Iterator[tuple[str, str]]:
    """Return the parts of a line, each with the class of its attribute; cut at `COLUMNS`."""
    kind, room = "", COLUMNS
    for number, part in enumerate(_ATTRIBUTE.split(line)):
        if number % 2:
            kind = COLOURS.get(part, "")
        elif part[:room]:
            yield kind, part[:room]
            room -= len(part[:room])


def shown_at(recording: Recording) -> list[float]:
    """Return when each line appears in the picture, with long waits shortened."""
    times, before, now = [], 0.0, 0.0
    for at, _ in recording:
        now += min(at - before, LONGEST_WAIT)
        before = at
        times.append(now)
    return times


def render_svg(recording: Recording) -> str:
    """Return the recording as an SVG that scrolls by itself.

    A reader who prefers no motion sees the end.
    """
    times = shown_at(recording)
    duration = times[-1] + LAST_WAIT
    width, height = round(COLUMNS * WIDTH) + 24, ROWS * LINE + 24
    frames = [(0.0, 0)]
    frames += [
        (100 * at / duration, number)
        for number, at in enumerate(times, 1)
        if number == len(times) or times[number] > at
    ]
    moves = [f"{share:.3f}% {{ {_moved(lines)} }}" for share, lines in (*frames, (100, len(times)))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}">',
            "<title>make demo, recorded</title>",
            f"<style>\n{STYLE}",
            f"#lines {{ {_moved(len(times))} }}",
            f"@keyframes scroll {{ {' '.join(moves)} }}",
            "@media (prefers-reduced-motion: no-preference) {",
            f"  #lines {{ animation: scroll {duration:.1f}s step-end infinite; }} }}",
            "</style>",
            f'<clipPath id="screen"><rect width="{width}" height="{height - 12}"/></clipPath>',
            f'<rect width="{width}" height="{height}" rx="8" fill="#1c262b"/>',
            '<g clip-path="url(#screen)"><g id="lines">',
            *_texts(recording),
            "</g></g>",
            "</svg>",
            "",
        ]
    )


def _moved(lines: int) -> str:
    """Return the property that moves the text up so far that *lines* is the last line visible.

    The animation starts with a full screen.
    """
    return f"transform: translateY({-max(0, lines - ROWS) * LINE}px);"


def _texts(recording: Recording) -> Iterator[str]:
    for number, (_, line) in enumerate(recording, 1):
        parts = "".join(
            f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text)
            for kind, text in spans(line)
        )
        if parts:
            yield f'<text x="12" y="{number * LINE + 6}">{parts}</text>'


def render_page(recording: Recording) -> str:
    """Return the page with the picture and the whole text."""
    text = "\n".join(plain(line).rstrip() for _, line in recording).strip()
    return f"""\
# The demo

`make demo` prints this. `make record` wrote this page and the picture from a run. Waits of more
than {LONGEST_WAIT} s are shortened in the picture; the times in the text are as measured.

![The demo, recorded](pictures/demo.svg)

```text
{text}
```
"""


def main() -> None:
    """Record the demo and write both files."""
    recording = record([str(Path(sys.executable).with_name("netfw")), "demo"])
    PICTURE.write_text(render_svg(recording))
    PAGE.write_text(render_page(recording))


if __name__ == "__main__":
    main()
