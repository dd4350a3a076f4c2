"""StateSourceCase: the hooks of the suite of state sources."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import ClassVar

from hypothesis import HealthCheck, settings

from netfw.model.resource import Kind, Ref, Resource
from netfw.testing.conformance.state_source.environment import SourceEnvironment
from netfw.testing.conformance.state_source.reader_steps import refs

WIDE = 1000
"""A page that holds everything."""


class StateSourceCase:
    """Hooks of the tests of state sources.  Override :meth:`make_environment`."""

    examples: ClassVar[settings] = settings(
        deadline=None,
        derandomize=True,
        max_examples=150,
        suppress_health_check=list(HealthCheck),
    )
    """The effort of the property tests."""
    absent: ClassVar[frozenset[Kind]] = frozenset()
    """Kinds that this source never has; its backend accepts and drops them."""

    def make_environment(self, page: int) -> AbstractContextManager[SourceEnvironment]:
        """Return a context with a new, empty source, *page* resources per page, and its backend."""
        raise NotImplementedError("override make_environment(); see the module's docstring")

    def refs(self, resources: Iterable[Resource]) -> set[Ref]:
        """Return the references to these, of the kinds that the source has."""
        return {key for key in refs(resources) if key.kind not in self.absent}
