"""Our processes and the messages between them: forking, the channel, tensors on the wire, limits.

`protocol.py` has every message; `zygote.py` forks every process; `wire.py` is the channel between two of them.
"""
