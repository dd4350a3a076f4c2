"""Notifiers that tell outside parties over HTTP."""
