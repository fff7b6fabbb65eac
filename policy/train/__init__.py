"""How a policy learns from logged attempts: rewards, credit, fine-tuning and GRPO.

`rewards`, `recipes`, `credit`, `off_policy`, `novelty` and `trajectories` are pure and need neither torch nor a model;
what trains imports torch, transformers and TRL where it is used, and says what to install where they are missing.
"""
