"""Whether a request is for a driver at all.  Pure."""

from __future__ import annotations

from netfw.errors import InvalidInput
from netfw.model.segment import NetworkType, Provider


def check_type(own: NetworkType, request: Provider) -> None:
    """Refuse what is of another type than a driver's *own*.

    :raises InvalidInput: names the attribute.
    """
    if request.network_type is not own:
        raise InvalidInput(
            {"network_type": f"{request.network_type} is not what the {own} driver is for"}
        )
