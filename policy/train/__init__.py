"""Training of a policy on logged attempts: fine-tuning and GRPO.

`record` reads attempts and assigns rewards, `prepare` assigns credit, `update` trains, `evaluate` measures a policy.
`grpo_minimal.py` is the whole method in one file.
"""
