"""What references take as written, in TF32, and by `torch.compile`, measured in a process of its own.

`measuring.py` asks, `process.py` answers.
"""
