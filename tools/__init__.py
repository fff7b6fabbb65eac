"""What can be done to a kernel: load its problem, screen, compile, run it isolated, verify, time."""
