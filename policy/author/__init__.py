"""The built-in author: from a model's operator graph to a plan in words and a Triton file, without a language model."""
