"""Reference drivers, one folder per backend, none knowing another."""
