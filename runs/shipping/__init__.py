"""What is handed to a user: one file with the kernels, the reference behind them, and a guard that chooses."""
