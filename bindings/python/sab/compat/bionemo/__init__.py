"""``bionemo.size_aware_batching`` 1.0.0: ``sab.compat.bionemo.sampler`` and
``sab.compat.bionemo.utils``.
"""
