"""Where photos and labels come from; a file's name is the dataset's ``kind`` in params.yaml.

A dataset is one file: ``class Params``; ``parts(params)``, the files it is made of, each by a name in small letters with the
places it can come from, best first (none for photos that are rendered); and ``items(params, parts, name)``, which gets the
fetched files by the same names and yields every photo with its class, split and key. ``name`` is what params.yaml calls it.
Two facts help the forecast and may be left out: ``expected(params)``, photos by split, and ``PHOTO_BYTES`` of its archive. So
may ``TITLE``, what tables call a dataset of the file's own name.

Where the official files of ours are published, with their checksums, stands in ``official.yaml``.

A dataset that knows where its objects are, which segmentation is judged by, says so by ``truth(params)``: ``masks``, if the
items bring them; ``boxes``, if ``boxes(params, parts)`` gives those of photos by id, as (left, top, width, height) in the
photo's pixels; or None.

Items may say who is asked among whom (``query``, ``gallery``, ``camera``); a dataset whose items do so tells by
``given(params)``, and reports have mAP and CMC.
"""

SHARED = {"_imagenet": ("imagenet100", "imagenet_c", "imagenet_r", "imagenet_sketch", "imagenet_stylized")}
