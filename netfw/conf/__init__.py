"""Options: declared here, read into an object of the caller, never into a global one."""
