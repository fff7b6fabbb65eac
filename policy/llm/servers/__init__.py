"""Models behind servers: one request for each answer, and whatever may go wrong on the way."""
