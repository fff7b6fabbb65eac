"""`policy init`, `train sft`, `train grpo` and `train eval`: from options to a training and its screen.

The training itself is in `policy/train`.
"""
