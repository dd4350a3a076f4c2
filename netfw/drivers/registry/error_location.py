"""Files and lines of errors, for texts that have no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType


def frames_of(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames that *error* passed, with their lines; the one that raised it is last."""
    traceback = error.__traceback__
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def top_package(module: str) -> str:
    """Return the package at the top of *module*."""
    return module.partition(".")[0]


def package_of(frame: FrameType) -> str:
    """Return the package at the top of the module of *frame*."""
    return top_package(str(frame.f_globals.get("__name__", "")))


def location_in(package: str, error: BaseException) -> str:
    """Return where *error* left the code of *package*, as the end of a text; else nothing."""
    found = [
        (frame.f_code.co_filename, line)
        for frame, line in frames_of(error)
        if package_of(frame) == package
    ]
    return " (in {}, line {})".format(*found[-1]) if found else ""
