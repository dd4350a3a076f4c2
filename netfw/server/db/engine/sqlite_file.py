"""The file of an SQLite database: made for its owner and his group, and said at once if it cannot
be."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL

from netfw.errors import ConfigError

DIRECTORY_MODE, FILE_MODE = 0o751, 0o640
"""Others may pass: dnsmasq, which is nobody, has its files below the same state_path."""


def make_file(url: URL, named_by: str) -> None:
    """Make the file that *url* names, and its directory, where they are missing.

    What is there keeps its permissions.  SQLite's own further files get those of the first.

    :raises ConfigError: this user cannot have it there; *named_by* is the option to change.
    """
    path = Path(url.database or "")
    if "uri" in url.query:
        return  # a name with options, which SQLite alone understands
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename not in (None, path, str(path)) else ""
        raise ConfigError(
            f"the database cannot be {path}: {where}{exc.strerror}; change {named_by}, or "
            "whose the directory is"
        ) from exc
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise ConfigError(
            f"the database cannot be {path}: SQLite needs to write to its directory, and user "
            f"{os.geteuid()} may not; change {named_by}, or whose the directory is"
        )
