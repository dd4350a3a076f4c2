"""Change: one resource before and after a request."""

from __future__ import annotations

from typing import cast

from attrs import frozen

from netfw.model.network import Network
from netfw.model.resource import Ref, Resource, ref
from netfw.model.segment import Segment


@frozen(kw_only=True)
class Change:
    """One resource before and after: new without ``before``, deleted without ``after``."""

    before: Resource | None
    after: Resource | None
    network: Network | None = None
    """The network of a subnet or a port."""
    segments: tuple[Segment, ...] = ()
    """The segments of the network, dynamic ones included."""
    request_id: str = ""
    """Id of the API request that made it."""
    ready_host: str = ""
    """Host that is ready for the activation of a port, which is plugged there and dead."""

    def __attrs_post_init__(self) -> None:
        if self.before is None or self.after is None:
            if self.before is self.after:
                raise ValueError("a change has a before, an after, or both")
            return
        if (was := ref(self.before)) != (is_ := ref(self.after)):
            raise ValueError(f"one change is about one resource, not {was} and {is_}")

    @property
    def resource(self) -> Resource:
        """The newest state of the resource: ``after``, or ``before`` if it was deleted."""
        return cast(Resource, self.before if self.after is None else self.after)

    @property
    def ref(self) -> Ref:
        """What it is about."""
        return ref(self.resource)

    @property
    def revision(self) -> int:
        """The revision it leads to, or the last one of what is gone."""
        return self.resource.revision
