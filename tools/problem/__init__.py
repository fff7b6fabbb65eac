"""Problems: the files and specifications that say which module is to be made faster, and with which inputs.

Nothing here runs a problem; `reference` does.
"""
