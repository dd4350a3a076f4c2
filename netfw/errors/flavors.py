"""Refusals of flavors and service profiles."""

from __future__ import annotations

from netfw.errors import Conflict, InUse, InvalidInput, NotFound


class FlavorNotFound(NotFound):
    """The flavor does not exist."""

    resource = "flavor"


class FlavorInUse(InUse):
    """Routers have the flavor."""

    resource = "flavor"


class FlavorDisabled(Conflict):
    """The flavor, or its service profile, is disabled."""


class ServiceProfileNotFound(NotFound):
    """The service profile does not exist, or is not that of the flavor."""

    resource = "service_profile"


class ServiceProfileInUse(InUse):
    """Flavors have the service profile."""

    resource = "service_profile"


class ServiceProfileDriverNotFound(NotFound):
    """No provider has the driver that a service profile names."""


class ServiceProfileEmpty(InvalidInput):
    """The service profile has neither a driver nor metainfo."""


class FlavorServiceProfileBindingExists(Conflict):
    """The flavor has the service profile already."""


class FlavorServiceProfileBindingNotFound(NotFound):
    """The flavor does not have the service profile."""
