"""Drivers that keep their state on Open vSwitch."""
