"""Hot loops, compiled by Numba: arrays in, buffers out, a range of nodes; the only modules that use Numba.

A kernel trusts its input, raises nothing, keeps no state and draws no random numbers. All arithmetic is float64,
whatever the dtype of the data: sums lose nothing, float32 squares cannot overflow, and on the machines measured the
loops wait for memory anyway. Every exact distance goes through ``squared_distance``. Inlined into two callers it may
still be rounded in two ways, so expected distances, which are compared for ties, come from one function.
"""
