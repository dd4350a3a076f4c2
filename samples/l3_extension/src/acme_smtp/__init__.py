"""Routers that refuse SMTP."""

from acme_smtp.refuse_smtp import RefuseSmtp

__all__ = ["RefuseSmtp"]
