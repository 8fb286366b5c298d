"""Cures without training, which any model can have: one cure, one file (docs/methods.md, section 14).

A file has ``TITLE``, its name for people; ``INDEX``, what becomes of an index of photos that exists: ``again`` (every photo goes
through the model anew) or ``mapped`` (each of its vectors is multiplied once); and ``FITTED``, whether it is fitted.

One that is fitted has ``fit(crossed, judge)``: of embeddings [n, m, d] of n validation objects in front of the same m backgrounds
of the validation pool, a map from embeddings [N, d] to embeddings, both of unit length; ``judge`` says how well validation photos
on other backgrounds are found with such a map (MAP@R).

Any other sees each picture with the mask of its object, and has ``AT``: at ``picture`` it has ``apply(picture, mask)``, from a
picture uint8 [S, S, 3] and its mask uint8 [S, S] to the picture that the model sees; at ``features`` it has ``apply(features,
masks)``, from feature maps [B, C, h, w] and masks float32 [B, 1, S, S] in 0..1 to feature maps, which are then pooled as ever.
"""

SHARED = {"_pictures": ("blurred", "cropped", "grey"), "_projected": ("leace", "moved_directions")}
