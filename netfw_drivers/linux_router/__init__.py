"""Router driver that uses namespaces, routes and iptables of the kernel."""
