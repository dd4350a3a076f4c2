"""Programs beside the hosts of a lab: databases, a broker, a server, a metadata service."""
