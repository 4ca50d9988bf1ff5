"""``asym``, its modules under their names: ``annotated_module``, ``data``, ``data_collection``,
``grouper``, ``padding``, ``precompute_grouper_thresholds``, ``shape_signature``.

Code written for asym runs after its imports are changed, and computes the same numbers and
gradients. Natively: :class:`sab.Collection`, :class:`sab.Grouping`, :func:`sab.find_thresholds`.
"""
