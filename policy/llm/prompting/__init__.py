"""What a language model is shown: an observation as two messages, within a number of tokens."""
