"""`triton-agent mcp`: the commands as tools for coding agents, over the Model Context Protocol.

`server.py` declares the tools and is the only module that imports the SDK; `service.py` answers them in text, `jobs.py`
holds optimizations in the background, `roots.py` says which files may be read.
"""
