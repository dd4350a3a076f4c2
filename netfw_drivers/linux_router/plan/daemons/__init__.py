"""Plans of the processes in the namespaces of routers.  Pure."""
