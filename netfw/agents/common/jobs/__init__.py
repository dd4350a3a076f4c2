"""Groups of keys that are converged in parallel: jobs for a worker pool."""
