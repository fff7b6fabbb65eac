"""`triton-agent view`: a local web page over the store, its benchmark records and training runs.

`app.py` maps addresses to pages and checks requests, `frame.py` makes the frame of a page, and each other module makes
one page from the parts in `runs/report`. `actions.py` starts commands if the server may write.
"""
