"""Cures without training, which any model can have: one cure, one file or a row of one (docs/methods.md, section 14).

A file has ``TITLE``, its name for people; ``INDEX``, what becomes of an index of photos that exists: ``again`` (every photo goes
through the model anew) or ``mapped`` (each of its vectors is multiplied once); and ``FITTED``, whether it is fitted.

One that sees each picture with the mask of its object, a picture uint8 [S, S, 3] and a mask uint8 [S, S] or feature maps
[B, C, h, w] and masks float32 [B, 1, S, S] in 0..1, has ``AT``:

* ``picture``: ``apply(picture, mask)`` gives the picture that the model sees;
* ``beside``: ``apply(picture, mask)`` gives a second picture, which the model sees, too;
* ``features``: ``apply(features, masks)`` gives feature maps, which are then pooled as ever;
* ``patches``: ``apply(features, masks)`` gives the places of the maps that are embedded and compared one by one, bool [B, h, w].

One that is fitted has ``fit(judge)`` at ``beside``: a map from embeddings of pictures and of second pictures, [N, d] each, to
embeddings, with its ``weight``. Without ``AT`` it has ``fit(crossed, judge)``: of embeddings [n, m, d] of n validation objects
on the same m backgrounds of the validation pool, a map from embeddings [N, d] to embeddings, with its ``rank``, the
number of directions that it takes out. All are of unit length; ``judge`` says how well validation photos on other backgrounds are
found with such a map (MAP@R).
"""

SHARED = {
    "_pictures": ("grey", "blurred", "cropped", "fused", "background_subtracted"),
    "_features": ("object_pooling", "patchwise"),
    "_projected": ("leace", "moved_directions"),
}
