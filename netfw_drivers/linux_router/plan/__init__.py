"""Desired rules, namespaces and processes of routers, and the plan that leads to them.  Pure."""
