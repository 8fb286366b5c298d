"""What may stand between trunk and pooling: one file a neck, with ``class Params(Strict)`` and ``build(params)``.

``build`` returns a module from feature maps [B, channels, h, w] to feature maps of the same channels. Its weights are saved and
loaded with the model's, so that they may start as anything.
"""
