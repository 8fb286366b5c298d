"""From a photo to the mask of its object.

A masker is one file: ``class Params`` and three facts. ``PREDICTS``: whether a mask follows from the photo alone, so that equal
photos share it. ``SPEED``: options that change how fast masks are made, not the masks. ``FILES``: options that name files whose
content is the masks. One that predicts has ``build(params, device)``, which takes photos to masks (its ``one_by_one``, if it
has one, yields them as they are made, so that less is lost by an interruption); any other has
``given(params, truth, ids)``, which takes an image id to its mask (uint8 [H, W]) or to None.

Of a network that has published weights, ``PUBLISHED`` says where these are; those of ours stand in ``networks.yaml``.
"""

SHARED = {"_u2net": ("u2net", "u2netp"), "_graphs": ("birefnet", "birefnet_lite", "isnet", "onnx")}
