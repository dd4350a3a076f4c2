"""Install the previous release of netfw into ``.netfw/releases``, from the history of the checkout.

``make upgrade`` upgrades from it and rolls back to it.  The environment variable NETFW_PREVIOUS
names another commit.  With ``--step``, print the step of ``make test`` instead, or say that this
checkout has too little history for it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RELEASES = ROOT / ".netfw" / "releases"
PREVIOUS = "bf74a9b3bd2becc3f571e0e2b9595650a95d96ee"
"""The commit of the previous release: raise it with each release."""
EXTRAS = "server,metadata"


class InstallationError(Exception):
    """The previous release cannot be installed; says why."""


def previous_commit() -> str:
    """Return the commit to upgrade from."""
    return os.environ.get("NETFW_PREVIOUS") or PREVIOUS


def interpreter(commit: str) -> Path:
    """Return the interpreter of the environment with the release of *commit*."""
    return RELEASES / commit / "venv/bin/python"


def install(commit: str, repository: Path = ROOT, releases: Path = RELEASES) -> Path:
    """Install the release of *commit* if it is not there; return its directory.

    :raises InstallationError: the commit is nowhere to be found, or its packages are not.
    """
    releases.mkdir(parents=True, exist_ok=True)
    directory = releases / commit
    with (releases / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "ready").exists():
            shutil.rmtree(directory, ignore_errors=True)
            unpack(commit, directory / "source", repository, releases / "git")
            _install_packages(directory)
            (directory / "ready").touch()
    return directory


def unpack(commit: str, target: Path, repository: Path, apart: Path) -> None:
    """Write the files of *commit* to *target*.

    A checkout without that history fetches the commit into the repository *apart*, and so keeps its
    own as it is.

    :raises InstallationError: the commit is nowhere to be found.
    """
    target.mkdir(parents=True)
    if not _has(repository, commit):
        if not _has(apart, commit):
            _fetch(commit, repository, apart)
        repository = apart
    packed = target.with_suffix(".tar")
    _run("git", "-C", repository, "archive", "-o", packed, commit)
    _run("tar", "-x", "-f", packed, "-C", target)
    packed.unlink()


def print_step(commit: str, repository: Path = ROOT) -> None:
    """Print the step of ``make test`` that needs *commit*, if *repository* has it."""
    if _has(repository, commit):
        print("system-releases:last")
    else:
        text = f"system-releases is left out: this checkout does not have commit {commit}"
        print(text, file=sys.stderr)


def _fetch(commit: str, repository: Path, apart: Path) -> None:
    origin = _attempt("git", "-C", repository, "remote", "get-url", "origin").stdout.strip()
    reason = "it has no remote `origin`"
    if origin:
        _run("git", "init", "--quiet", "--bare", apart)
        done = _attempt("git", "-C", apart, "fetch", "--quiet", "--depth", "1", origin, commit)
        if not done.returncode:
            return
        reason = f"{origin} does not give it: {done.stderr.strip()}"
    raise InstallationError(
        f"the previous release is commit {commit}, which {repository} does not have, and {reason}; "
        "clone with its history (git fetch --unshallow), or set NETFW_PREVIOUS to another commit"
    )


def _install_packages(directory: Path) -> None:
    uv, python = ROOT / ".venv/bin/uv", directory / "venv/bin/python"
    _run(uv, "venv", "--quiet", "--python", ROOT / ".venv/bin/python", directory / "venv")
    wanted = f"{directory / 'source'}[{EXTRAS}]"
    _run(uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, wanted)


def _has(repository: Path, commit: str) -> bool:
    return _attempt("git", "-C", repository, "cat-file", "-e", f"{commit}^{{tree}}").returncode == 0


def _attempt(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def _run(*argv: str | Path) -> None:
    done = _attempt(*argv)
    if done.returncode:
        raise InstallationError(f"{' '.join(map(str, argv))}: {done.stderr.strip()}")


def main(argv: Sequence[str]) -> int:
    """Install it; return 0, or 1 and say why not."""
    if argv == ["--step"]:
        print_step(previous_commit())
        return 0
    try:
        install(previous_commit())
    except InstallationError as exc:
        print(f"{Path(__file__).name}: {exc}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
