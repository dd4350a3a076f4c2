"""Options: declared here, read into a private object, never a global one."""
