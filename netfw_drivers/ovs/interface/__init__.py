"""Interface driver: devices plugged into a bridge."""
