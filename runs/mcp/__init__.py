"""`triton-agent mcp`: the commands as tools for coding agents, over the Model Context Protocol.

`server.py` declares the tools and is the only module that imports the SDK; `service.py` makes their answers, `jobs.py`
runs optimizations in the background, `roots.py` resolves the files that a client names.
"""
