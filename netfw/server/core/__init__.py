"""What the server's resources mean: handlers, the drivers they ask, and what follows a commit."""
