"""Pure: the files and the command line of dnsmasq."""
