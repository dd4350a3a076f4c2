"""Delivery of committed changes to mechanism drivers and notifiers."""
