"""Pure: flows per port and rule, for the documentation."""
