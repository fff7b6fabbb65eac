"""`triton-agent view`: a local web page over the store, its benchmark records and training runs.

`app.py` has the addresses and who may ask for them, `frame.py` what surrounds a page; the other modules are a page
each, built of the parts in `runs/report`. `actions.py` starts commands where the server may write.
"""
