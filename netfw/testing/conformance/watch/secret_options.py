"""Options and attributes whose names tell of a secret."""

from __future__ import annotations

import re

from netfw.drivers.base import Driver

SECRET = re.compile(r"password|passphrase|secret|token|private_key|credential")
"""What is in their names."""


def assert_secrets_are_declared(driver: Driver) -> None:
    """Assert that the options of *driver* that hold secrets are declared as secret."""
    shown = [o.name for o in type(driver).OPTIONS if SECRET.search(o.dest) and not o.secret]
    assert not shown, (
        f"promise 7 of Driver: the options {', '.join(shown)} hold secrets and are shown to "
        f"operators: declare them with secret=True"
    )
