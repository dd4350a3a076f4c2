"""What the drivers for Open vSwitch share."""
