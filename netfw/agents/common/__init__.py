"""The parts that every agent shares: loop, retry queue, replica, worker pool."""
