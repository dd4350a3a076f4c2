"""Transport over a message broker, by oslo.messaging."""
