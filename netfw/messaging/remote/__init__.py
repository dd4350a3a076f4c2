"""State sources offered to other processes, over any transport."""
