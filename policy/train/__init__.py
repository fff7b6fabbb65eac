"""How a policy learns from logged attempts: fine-tuning and GRPO.

`record` reads attempts and pays them, `prepare` assigns credit, `update` trains, `evaluate` measures a policy.
`grpo_minimal.py` is the whole of it in one file.
"""
