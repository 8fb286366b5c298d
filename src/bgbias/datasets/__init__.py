"""Where photos and labels come from; a file's name is the dataset's ``kind`` in params.yaml.

A dataset is one file: ``class Params``, ``sources(params)`` (places of its archive, best first; none if it is rendered) and
``items(params, archive, name)``, which yields every photo with its class, split and key. ``name`` is what params.yaml calls it.
"""
