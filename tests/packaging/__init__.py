"""The Debian package and its units, on a machine that runs systemd; see `make packaging`."""
