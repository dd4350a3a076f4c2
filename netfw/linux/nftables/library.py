"""libnftables by ctypes: JSON in, JSON out.

The binding of distributions (python3-nftables) is not on PyPI, and a copy of it there
(pip-nftables) would be a dependency for the few functions that are needed.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache

from attrs import frozen

from netfw.errors import BackendBroken
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netlink.raw_socket import NETLINK_NETFILTER, RawNetlinkSocket
from netfw.linux.netns import Namespace, run_in

LIBRARY = "libnftables.so.1"

_HANDLE, _JSON, _NUMERIC = 1 << 3, 1 << 4, 0b1111 << 7
"""Output: handles, JSON, and numbers for protocols, priorities, symbols and times."""


_RECEIVE_BUFFER = 1 << 12


@frozen
class Answer:
    """Result of a call."""

    ok: bool
    output: str
    errors: str


@cache
def load_library(name: str = LIBRARY) -> ctypes.CDLL:
    """Load libnftables and declare its functions.

    :raises BackendBroken: this host has no such library.
    """
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise BackendBroken(
            f"there is no {name}: install it (Debian: apt install libnftables1)"
        ) from error
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    library.nft_ctx_new.restype = pointer
    for function in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        getattr(library, function).restype = text
        getattr(library, function).argtypes = [pointer]
    for function in ("nft_ctx_buffer_output", "nft_ctx_buffer_error", "nft_ctx_free"):
        getattr(library, function).argtypes = [pointer]
    library.nft_ctx_output_set_flags.argtypes = [pointer, ctypes.c_uint]
    library.nft_ctx_set_dry_run.argtypes = [pointer, ctypes.c_bool]
    library.nft_run_cmd_from_buffer.argtypes = [pointer, text]
    return library


def _open_context(library: ctypes.CDLL) -> int:
    """Open a context; a socket first, as libnftables ends the process if it gets none."""
    RawNetlinkSocket(NETLINK_NETFILTER, receive_buffer=_RECEIVE_BUFFER, timeout=1.0).close()
    context: int = library.nft_ctx_new(0)
    return context


class NftContext:
    """A context of libnftables; its socket is that of *namespace*, whichever thread uses it.

    Used by one thread at a time.

    :param json: commands and listings are JSON; otherwise the text of ``nft -f``.

    :raises BackendBroken: libnftables is missing, or netfw may not enter the namespace.
    :raises NotFound: there is no such namespace.
    """

    def __init__(self, namespace: Namespace = None, *, json: bool = True) -> None:
        library = load_library()
        self._library = library
        try:
            self._context = run_in(namespace, _open_context, library)
        except OSError as error:
            raise error_from_errno(
                error.errno or 0, "opening a socket for nftables", str(error)
            ) from error
        self._free = weakref.finalize(self, library.nft_ctx_free, self._context)
        library.nft_ctx_buffer_output(self._context)
        library.nft_ctx_buffer_error(self._context)
        flags = _HANDLE | _JSON | _NUMERIC if json else 0
        library.nft_ctx_output_set_flags(self._context, flags)

    def run(self, commands: str, *, dry: bool = False) -> Answer:
        """Execute *commands* in one transaction; *dry*: have the kernel check them only."""
        library = self._library
        library.nft_ctx_set_dry_run(self._context, dry)
        status = library.nft_run_cmd_from_buffer(self._context, commands.encode())
        output = library.nft_ctx_get_output_buffer(self._context)
        errors = library.nft_ctx_get_error_buffer(self._context)
        return Answer(status == 0, output.decode(), errors.decode(errors="replace"))

    def close(self) -> None:
        """Free the context.  Idempotent."""
        self._free()
