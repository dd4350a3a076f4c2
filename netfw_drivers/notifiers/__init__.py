"""Notifiers over HTTP."""
