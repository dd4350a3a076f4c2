"""The types of segments that the reference switch can carry, one driver each."""
