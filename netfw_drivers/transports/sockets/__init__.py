"""Transport without a broker: unix sockets and TCP, and within one process."""
