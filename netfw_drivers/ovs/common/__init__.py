"""Code that the drivers for Open vSwitch share."""
