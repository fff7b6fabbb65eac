"""The trainings themselves, on TRL's trainers: fine-tuning, GRPO, checkpoints, warning signs.

`session.py` runs one GRPO training from start to end.
"""
