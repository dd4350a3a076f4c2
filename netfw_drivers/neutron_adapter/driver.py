"""NeutronMechanismDriver: a mechanism driver that was written for Neutron.

neutron-lib, and the modules here that import it, are imported when the first driver is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from oslo_config import cfg

from netfw.drivers.base import DriverInfo, HostResources
from netfw.drivers.server.change import Change
from netfw.drivers.server.mechanism import (
    Binding,
    BindingRequest,
    Bound,
    MechanismCapability,
    MechanismDriver,
    Partial,
    Refused,
)
from netfw.drivers.support.plain_threads import without_eventlet
from netfw.errors import ConfigError, InvalidInput, NetfwError
from netfw.model.network import Network
from netfw.model.segment import NetworkType, Provider
from netfw.model.values.common_fields import Status
from netfw.model.values.ids import SegmentId
from netfw.model.wire.ports import VIF_DETAILS
from netfw_drivers.neutron_adapter.calls import SEGMENT_KEY, Phase, plan_calls
from netfw_drivers.neutron_adapter.current_call import CurrentCall, calling

if TYPE_CHECKING:
    from netfw_drivers.neutron_adapter.contexts import BindingResult

LOG = logging.getLogger(__name__)


class NeutronMechanismDriver(MechanismDriver):
    """A mechanism driver that was written for Neutron: it sees the contexts of neutron-lib.

    Precommit methods are called by ``validate``, postcommit methods by ``deliver``.
    """

    VERSION: ClassVar[int] = 2
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = (
        cfg.ListOpt(
            "config_files",
            required=True,
            help="Files with the options of the driver, as Neutron's server would read them. "
            "Empty: the driver needs none. Drivers of Neutron share one configuration: each of "
            "them sees the files of all.",
        ),
        cfg.BoolOpt(
            "ignore_missing",
            default=False,
            help="Load the driver although it subscribes to callbacks, starts RPC listeners or "
            "needs worker processes: netfw has none of them, and they are never called.",
        ),
    )
    NAME: ClassVar[str]
    """Name of the driver in the entry points of Neutron."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @classmethod
    def from_conf(cls, options: Mapping[str, Any], host: HostResources) -> Self:
        try:
            with without_eventlet():
                from netfw_drivers.neutron_adapter.loading import load_driver
        except ImportError as exc:
            raise ConfigError(
                f"driver {cls.NAME!r} was written for Neutron: install netfw[neutron] ({exc})"
            ) from exc
        return cls(
            load_driver(cls.NAME, options["config_files"], lenient=options["ignore_missing"])
        )

    def describe(self) -> DriverInfo[MechanismCapability]:
        return DriverInfo(self.NAME, {MechanismCapability.DELIVERS})

    def validate(self, change: Change) -> None:
        from netfw_drivers.neutron_adapter.error_translation import precommit_error

        self._call(change, Phase.PRECOMMIT, precommit_error)

    def deliver(self, change: Change) -> None:
        from netfw_drivers.neutron_adapter.error_translation import postcommit_error

        self._call(change, Phase.POSTCOMMIT, postcommit_error)

    def bind(self, request: BindingRequest) -> Binding:
        from netfw_drivers.neutron_adapter.contexts import BindingPortContext, ChangeContext

        if request.port.trunk is not None:
            return Refused(
                f"port {request.port.id} belongs to a trunk, and netfw does not pass trunks to "
                "drivers of Neutron"
            )
        environment = ChangeContext.of_request(self.NAME, request)
        context = BindingPortContext(environment, request.port, request.agents)
        with calling(self.NAME) as call:
            try:
                self._driver.bind_port(context)
            except NetfwError as exc:
                return Refused(str(exc))
        if context.result is None:
            said = "; ".join(call.warnings) or "it gives no reason"
            return Refused(f"the driver does not bind it: {said}")
        return _binding(request, context.result, call)

    def _call(
        self, change: Change, phase: Phase, translate: Callable[[str, Exception], NetfwError]
    ) -> None:
        from netfw_drivers.neutron_adapter.contexts import ChangeContext, make_context

        network = change.resource if isinstance(change.resource, Network) else change.network
        if network is None:  # neither a network nor a resource of one
            return
        environment = ChangeContext.of_change(self.NAME, change, network)
        for each in plan_calls(change):
            method = each.method(phase)
            try:
                with calling(self.NAME):
                    getattr(self._driver, method)(make_context(environment, each))
            except Exception as exc:
                LOG.debug("%s: %s of %s failed", self.NAME, method, change.ref, exc_info=True)
                raise translate(self.NAME, exc) from exc


@lru_cache(maxsize=64)
def adapt(name: str) -> type[NeutronMechanismDriver]:
    """Return the driver class for the driver of Neutron that is registered as *name*."""
    attributes = {"NAME": name, "__module__": __name__, "__doc__": NeutronMechanismDriver.__doc__}
    return type(name, (NeutronMechanismDriver,), attributes)


def _binding(request: BindingRequest, result: BindingResult, call: CurrentCall) -> Binding:
    """Return the answer for the call by which the driver bound a port."""
    offered = {str(segment.id): segment.id for segment in request.segments}
    segment = offered.get(result.segment_id)
    if segment is None:
        return Refused(f"the driver binds it to segment {result.segment_id}, which is not offered")
    if result.next_segment is not None:
        return _partial(segment, result.next_segment)
    if not isinstance(result.vif_type, str):
        return Refused(f"the driver binds it with the vif type {result.vif_type!r}")
    given = result.vif_details or {}
    if not isinstance(given, Mapping):
        return Refused(f"the driver binds it with vif_details that are a {type(given).__name__}")
    details = dict(given)
    if request.level or len(offered) > 1:
        details[SEGMENT_KEY] = str(segment)
    try:
        parsed = VIF_DETAILS.parse(details)
    except (InvalidInput, ValueError, TypeError) as exc:
        return Refused(f"the driver binds it with impossible vif_details: {exc}")
    wired = result.status == Status.ACTIVE.value or bool(call.components)
    return Bound(segment=segment, vif_type=result.vif_type, vif_details=parsed, wired=wired)


def _partial(segment: SegmentId, wanted: Mapping[str, Any]) -> Binding:
    try:
        provider = Provider(
            network_type=NetworkType(wanted["network_type"]),
            physical_network=wanted.get("physical_network"),
            segmentation_id=wanted.get("segmentation_id"),
        )
    except (KeyError, ValueError, TypeError) as exc:
        return Refused(f"the driver requests an impossible segment for the next level: {exc}")
    return Partial(segment=segment, wants=provider)
