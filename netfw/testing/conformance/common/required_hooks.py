"""Refusal of suites whose hooks are missing, before any test runs."""

from __future__ import annotations

from typing import Any, ClassVar

from netfw.testing.conformance.common.host_driver import MissingHooks, missing_hooks
from netfw.testing.conformance.watch.suite import WatchedSuite


class RequiresHooks(WatchedSuite):
    """A suite whose ``HOOKS`` every collected subclass overrides."""

    HOOKS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        missing = missing_hooks(cls)
        if missing and cls.__name__.startswith("Test"):
            module = next(base.__module__ for base in cls.__mro__ if "HOOKS" in vars(base))
            raise MissingHooks(
                f"{cls.__name__} lacks hooks: override {', '.join(missing)}; "
                f"what each is for is in {module}"
            )
