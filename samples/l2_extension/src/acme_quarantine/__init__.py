"""Ports in quarantine."""

from acme_quarantine.quarantine import Quarantine

__all__ = ["Quarantine"]
