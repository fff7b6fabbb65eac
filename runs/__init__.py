"""What a person starts: the command line and its screens. The only place that wires the others together."""
