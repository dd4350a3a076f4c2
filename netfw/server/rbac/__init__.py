"""Resource handler of RBAC policies."""
