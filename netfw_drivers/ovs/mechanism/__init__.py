"""Pure: mechanism driver of the L2 agent for Open vSwitch."""
