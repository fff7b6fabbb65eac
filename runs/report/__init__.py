"""A run on one HTML page, which needs nothing else to be read."""
