"""Reference transports between server and agents."""
