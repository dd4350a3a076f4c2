"""Network segment ranges: the numbers that networks of a project, or of all, get."""
