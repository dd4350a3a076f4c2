"""The PCI device in a binding profile, as compute services write it.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from attrs import frozen

from netfw.model.values.json_document import JsonDocument
from netfw.model.values.text_validation import check_physical_network, quote

_SLOT = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-1][0-9a-f]\.[0-7]", re.IGNORECASE)
_VENDOR = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}", re.IGNORECASE)


@frozen(kw_only=True)
class PciProfile:
    """The device that the compute service chose for a port; each part may be missing."""

    slot: str | None = None
    """Its PCI address: ``0000:03:10.1``."""
    vendor_info: str | None = None
    """The ids of vendor and product: ``8086:154c``."""
    physical_network: str | None = None
    capabilities: frozenset[str] = frozenset()

    @classmethod
    def of(cls, profile: JsonDocument) -> Self:
        """Parse *profile*; keys that do not describe the device are ignored.

        :raises ValueError: a key has a value that compute services do not write.
        """
        content = profile.content()
        network = _text(content, "physical_network")
        if network is not None:
            check_physical_network(network)
        capabilities = content.get("capabilities") or []
        if not (isinstance(capabilities, list) and all(isinstance(c, str) for c in capabilities)):
            raise ValueError("capabilities is not a list of words")
        return cls(
            slot=_text(content, "pci_slot", _SLOT),
            vendor_info=_text(content, "pci_vendor_info", _VENDOR),
            physical_network=network,
            capabilities=frozenset(capabilities),
        )

    def device(self) -> dict[str, str]:
        """Return the device as the details of a vif have it."""
        known = {"pci_slot": self.slot, "pci_vendor_info": self.vendor_info}
        return {name: value for name, value in known.items() if value is not None}


def _text(
    content: Mapping[str, Any], key: str, pattern: re.Pattern[str] | None = None
) -> str | None:
    found = content.get(key)
    if found is None:
        return None
    if not isinstance(found, str):
        raise ValueError(f"{key} is not text")
    if pattern is not None and not pattern.fullmatch(found):
        raise ValueError(f"{key} is {quote(found)}")
    return found
