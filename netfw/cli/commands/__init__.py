"""The `netfw` command and its subcommands."""
