"""Several hosts with their own Open vSwitch, on one machine, in namespaces."""
