"""Processes apart from each other: the channel between them, the zygote that forks them, the sandbox around them."""
