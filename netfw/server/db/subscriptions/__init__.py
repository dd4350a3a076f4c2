"""Which host reads which topics."""
