"""What other libraries hold, as arrays of nodes: labeled arrays, draws, imputations, measurements with errors.

Nothing here imports these libraries: whoever passes an object of one has imported it.
"""
