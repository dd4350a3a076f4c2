"""Errors of the machine around processes."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from netfw.errors import BackendBroken, BackendUnavailable

_OUT_OF_DESCRIPTORS_OR_MEMORY = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_FULL = _OUT_OF_DESCRIPTORS_OR_MEMORY | {errno.EAGAIN, errno.ENOSPC, errno.EDQUOT}


def raise_if_full(error: OSError) -> None:
    """Raise *error* again if it is about this process, which has no descriptor or memory left."""
    if error.errno in _OUT_OF_DESCRIPTORS_OR_MEMORY:
        raise error


@contextmanager
def translated_errors(what: object) -> Iterator[None]:
    """Translate errors of the machine during *what* to errors of netfw."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise BackendUnavailable(f"{what}: {error}") from error
        raise BackendBroken(f"{what}: {error}; the records need a writable directory") from error
