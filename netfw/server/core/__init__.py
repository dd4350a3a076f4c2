"""What the server's resources mean: keepers, the drivers they ask, and what follows a commit."""
