"""What only serves the methods."""
