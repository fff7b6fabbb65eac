"""What is remembered: runs, attempts, gradings."""
