"""`policy init`, `train sft`, `train grpo` and `train eval`: options, data, and the screen of a training.

Training itself is in `policy/train`.
"""
