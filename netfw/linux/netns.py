"""Network namespaces, as ``ip netns`` keeps them: bind mounts under ``/run/netns``.

Names mean what they mean to the calling *thread*: a thread that was moved into another mount
namespace sees that one's ``/run/netns``.  No function here moves the calling thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from attrs import frozen

from netfw.errors import Conflict, NotFound
from netfw.linux import syscalls
from netfw.linux.errno_errors import error_from_errno
from netfw.linux.netns_thread import NetnsThread, run_in_thread
from netfw.model.values.device_names import check_namespace_name, is_namespace_name

_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_REQUEST = struct.Struct("16sH22x")


def raise_loopback() -> None:
    """Set ``lo`` up in the namespace of the calling thread.

    :raises OSError: the kernel refused.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        answer = fcntl.ioctl(control, _SIOCGIFFLAGS, _REQUEST.pack(b"lo", 0))
        name, flags = _REQUEST.unpack(answer)
        fcntl.ioctl(control, _SIOCSIFFLAGS, _REQUEST.pack(name, flags | _IFF_UP))


P = ParamSpec("P")
T = TypeVar("T")

DIRECTORY = Path("/run/netns")

Namespace = str | Path | None
"""A namespace by its name, by a path that refers to it, or (None) that of the calling thread."""

_OWN = Path("/proc/thread-self/ns/net")
_NS_GET_USERNS = 0xB701
_NS_GET_NSTYPE = 0xB703


@frozen
class NamespaceIdentity:
    """Device and inode of a living namespace: unique, whatever names it has."""

    device: int
    inode: int


def path_of(namespace: Namespace) -> Path:
    """Return the path of the file that refers to *namespace*, whether it exists or not.

    :raises ValueError: the name is not one that netfw uses.
    """
    if namespace is None:
        return _OWN
    if isinstance(namespace, Path):
        return namespace
    check_namespace_name(namespace)
    return DIRECTORY / namespace


def of_process(pid: int) -> Path:
    """Return a reference to the network namespace of the process *pid*, valid while it lives."""
    return Path(f"/proc/{pid}/ns/net")


def names() -> frozenset[str]:
    """Return the names of all namespaces, without files in ``/run/netns`` that refer to none.

    Names that netfw does not allow are left out: other programs may use them.
    """
    return frozenset(name for name in file_names() if _is_namespace(DIRECTORY / name))


def file_names() -> frozenset[str]:
    """Return the names of all namespaces, and of files in ``/run/netns`` that refer to none.

    A process that is killed while it makes or deletes a namespace leaves such a file; `delete`
    removes it.
    """
    try:
        found = os.listdir(DIRECTORY)
    except FileNotFoundError:
        return frozenset()
    return frozenset(filter(is_namespace_name, found))


def has_file(name: str) -> bool:
    """Return whether ``/run/netns`` has a file of that name, even if it refers to no namespace."""
    return os.path.lexists(path_of(name))


def exists(namespace: Namespace) -> bool:
    """Return whether there is such a namespace."""
    return _is_namespace(path_of(namespace))


def identity(namespace: Namespace = None) -> NamespaceIdentity:
    """Return the identity of the namespace.

    :raises NotFound: there is no such namespace.
    """
    with _opened(namespace) as descriptor:
        status = os.fstat(descriptor)
        return NamespaceIdentity(status.st_dev, status.st_ino)


def is_of_own_users(namespace: Namespace) -> bool:
    """Return whether the namespace belongs to the user namespace of this process.

    A namespace that an ordinary user made belongs to a user namespace of that user.

    :raises NotFound: there is no such namespace.
    """
    with _opened(namespace) as descriptor:
        try:
            owner = fcntl.ioctl(descriptor, _NS_GET_USERNS)
        except PermissionError:
            return False  # that of an ancestor
        try:
            return os.path.samestat(os.fstat(owner), os.stat("/proc/self/ns/user"))
        finally:
            os.close(owner)


def open_namespace(namespace: Namespace) -> int:
    """Open a descriptor of the namespace, for the caller to close.

    :raises NotFound: there is no such namespace, or it is incomplete.
    """
    path = path_of(namespace)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise NotFound(f"there is no network namespace {namespace} ({path})") from error
    except OSError as error:
        raise error_from_errno(error.errno or 0, f"opening {path}", str(error)) from error
    if not _refers_to_namespace(descriptor):
        os.close(descriptor)
        raise NotFound(f"{path} does not refer to a network namespace")
    return descriptor


def create(name: str) -> None:
    """Create a namespace, with its loopback up.

    :raises Conflict: there is one of that name.
    :raises BackendBroken: netfw lacks a privilege; the message names it.
    """
    if not ensure(name):
        raise Conflict(f"there is a network namespace {name} already; delete it, or use it")


def ensure(name: str) -> bool:
    """Create the namespace *name* if it does not exist; return whether it was created.

    A file that refers to no namespace, left by a crash, is completed.

    :raises BackendBroken: netfw lacks a privilege; the message names it.
    """
    path = path_of(name)
    if _is_namespace(path):
        return False
    try:
        DIRECTORY.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _directory_locked():
            _share(str(DIRECTORY))
            if _is_namespace(path):
                return False
            _make(path)
    except OSError as error:
        raise error_from_errno(error.errno or 0, f"ip netns add {name}", str(error)) from error
    return True


def delete(name: str) -> bool:
    """Delete the namespace *name* if it exists; return whether it did.

    The kernel destroys a namespace when its last reference is gone: processes in it keep it
    alive, and its devices may disappear shortly after this returns.

    :raises BackendBroken: netfw lacks a privilege; the message names it.
    """
    path = path_of(name)
    try:
        with _directory_locked():
            while _is_namespace(path) and _unmounted(path):
                pass
            path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise error_from_errno(error.errno or 0, f"ip netns delete {name}", str(error)) from error
    return True


def run_in(
    namespace: Namespace, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call *function* within *namespace*, in a new thread, and return its result.

    Sockets opened and processes started by *function* belong to the namespace, wherever they are
    used later.  Its exceptions are raised here.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not enter it.
    :raises BackendUnavailable: the machine has no thread left.
    """
    path_of(namespace)

    def call() -> T:
        _enter(namespace)
        return function(*args, **kwargs)

    return run_in_thread(call, *_thread_texts(namespace))


def worker(namespace: Namespace) -> NetnsThread:
    """Start a thread within *namespace*, for several calls; the caller closes it.

    :raises NotFound: there is no such namespace.
    :raises BackendBroken: netfw may not enter it.
    :raises BackendUnavailable: the machine has no thread left.
    """
    path_of(namespace)
    return NetnsThread(lambda: _enter(namespace), *_thread_texts(namespace))


def _thread_texts(namespace: Namespace) -> tuple[str, str]:
    """Return the name of a thread in *namespace*, and what failed if it cannot be started."""
    which = namespace or "own"
    return f"netns-{which}", f"entering namespace {which} failed"


def _enter(namespace: Namespace) -> None:
    if namespace is None:
        return
    with _opened(namespace) as descriptor:
        try:
            syscalls.setns(descriptor, syscalls.CLONE_NEWNET)
        except OSError as error:
            raise error_from_errno(error.errno or 0, f"entering {namespace}", str(error)) from error


@contextmanager
def _opened(namespace: Namespace) -> Iterator[int]:
    descriptor = open_namespace(namespace)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_namespace(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return _refers_to_namespace(descriptor)
    finally:
        os.close(descriptor)


def _refers_to_namespace(descriptor: int) -> bool:
    try:
        return fcntl.ioctl(descriptor, _NS_GET_NSTYPE) == syscalls.CLONE_NEWNET
    except OSError:
        return False


def _unmounted(path: Path) -> bool:
    """Unmount once; return False if there is no mount: a link, or already unmounted."""
    try:
        syscalls.umount(str(path), syscalls.MNT_DETACH | syscalls.UMOUNT_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


@contextmanager
def _directory_locked() -> Iterator[None]:
    """Hold the lock of the directory, which iproute2 acquires too when it sets it up."""
    descriptor = os.open(DIRECTORY, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _share(directory: str) -> None:
    """Set the directory up as iproute2 does: a shared mount, so that namespaces created or deleted
    here also appear and disappear in mount namespaces that were cloned from this one."""
    try:
        syscalls.mount("", directory, syscalls.MS_SHARED | syscalls.MS_REC)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # Not a mount point yet.
        syscalls.mount(directory, directory, syscalls.MS_BIND | syscalls.MS_REC)
        syscalls.mount("", directory, syscalls.MS_SHARED | syscalls.MS_REC)


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o000))
    try:
        failure = f"creating namespace {path.name} failed"
        with NetnsThread(
            lambda: syscalls.unshare(syscalls.CLONE_NEWNET), "netns-new", failure
        ) as new:
            new.run(raise_loopback)
            new.run(syscalls.mount, str(_OWN), str(path), syscalls.MS_BIND)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
