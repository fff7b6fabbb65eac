"""Language models as authors of kernels: `author.py` makes a policy of an engine.

`engines` runs models on this machine, `servers` asks models over HTTP, `prompting` renders observations.
"""
