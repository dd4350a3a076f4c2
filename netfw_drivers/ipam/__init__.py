"""Address management in netfw's own database."""
