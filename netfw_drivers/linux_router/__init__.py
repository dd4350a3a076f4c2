"""Router driver for the Linux kernel: namespaces, iptables, policy routing."""
