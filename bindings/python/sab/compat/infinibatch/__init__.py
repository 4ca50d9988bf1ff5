"""infinibatch's iterators and datasets, by libsab: the same names, parameters, orders and
errors.
"""
