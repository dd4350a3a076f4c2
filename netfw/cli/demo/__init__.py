"""``netfw demo``: netfw's main functions in a lab, section by section."""
