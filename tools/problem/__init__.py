"""Problems: the files and specifications that name the module to make faster and its inputs.

Nothing here runs a problem; `reference` does.
"""
