"""Trains with TRL's trainers: fine-tuning, GRPO, checkpoints, stopping.

`session.py` runs one GRPO training from start to end. Needs the extra `train`.
"""
