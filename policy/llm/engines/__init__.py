"""Engines that run a model on this machine: vLLM in its own process, or transformers in this process.

`vllm_worker.py` and `lookup_worker.py` run under another interpreter and import nothing of this project.
"""
