"""Models that are run here: by vLLM in a process of its own, or by transformers in this one."""
