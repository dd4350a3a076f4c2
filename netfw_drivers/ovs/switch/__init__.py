"""Switch driver: networks, ports and tunnels on bridges."""
