"""Links, addresses, routes, rules and neighbours by netlink."""
