"""An audit from Python: what the command ``bgbias audit`` does, of models and photos that are at hand."""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, overload

from bgbias.auditing import workplace
from bgbias.auditing.audit import run
from bgbias.auditing.backgrounds import find
from bgbias.auditing.compared import ComparedAudits
from bgbias.auditing.finished import Audit
from bgbias.auditing.photos import choose
from bgbias.auditing.question import Asked
from bgbias.auditing.request import audit_each, prepare
from bgbias.errors import of_arguments
from bgbias.models.adapters import OPTION_NAMES, Options
from bgbias.models.adapters import load as adapted
from bgbias.photos.sources import Source
from bgbias.photos.tables import NamedColumns


@overload
def audit(photos: Source, model: Mapping[str, object], **how: Any) -> ComparedAudits: ...  # type: ignore[overload-overlap]
@overload
def audit(photos: Source, model: object, **how: Any) -> Audit: ...
@of_arguments(*OPTION_NAMES)
def audit(
    photos: Source,
    model: object,
    *,
    out: str | Path | None = None,
    sample: int | None = 500,
    masks: str | Path | None = None,
    masker: str = "u2netp",
    mask_weights: str | Path | None = None,
    mask_options: Mapping[str, Any] | None = None,
    backgrounds: str | Path | None = None,
    draws: int = 5,
    attribution: int = 64,
    name: str | None = None,
    class_level: int | None = None,
    image_column: str = "",
    label_column: str = "",
    device: str = "auto",
    **looks: Any,
) -> Audit | ComparedAudits:
    """How much a model loses on these photos when only the background changes: what the command ``bgbias audit`` measures.

    ``photos``: a folder with a folder for each class, a zip, tar, CSV, Parquet or COCO file, the name of
    a dataset of params.yaml, a DataFrame, a ``datasets.Dataset`` or the folder of one, or a list of paths
    or pictures. ``image_column``, ``label_column``: those of a table whose names say nothing. ``model``:
    what the command's ``--model`` takes, or a network of torch's, an object with ``encode``, or a
    function from a list of pictures uint8 [H, W, 3] to their vectors; several of these by name are
    compared (``{"a": a, "b": b}``; ``ComparedAudits`` is given back). ``sample``: at most so many photos;
    None: all. ``mask_options``: the masker's, by name. ``out``: a folder for the files; what was
    begun there goes on. ``looks``: ``weights``, ``size``, ``resize``, ``squash``, ``interpolation``,
    ``mean``, ``std``, ``pooling``, where the model does not tell them. What cannot be used is a UserError.

    >>> def colours(batch):
    ...     return [photo.mean((0, 1)) for photo in batch]
    >>> found = bgbias.audit("photos", colours, masks="masks", size=64, resize=64, attribution=4)
    >>> found.drop.low < found.drop.value < found.drop.high
    True
    >>> found.classes[["class_name", "clean", "corrupted"]].shape
    (6, 3)
    """
    if out is not None:
        workplace.check(Path(out), photos)
    options = Options(**looks, device=device)
    several = model if isinstance(model, Mapping) else {}
    models = {str(called): one for called, one in (several or {"": model}).items()}
    named = NamedColumns(image_column, label_column)
    question, loads = prepare(
        choose(photos, masks, name, class_level, sample or None, named),
        {called: partial(adapted, one, options) for called, one in models.items()},
        Asked(draws=draws, attribution=attribution),
        options,
        find(None if backgrounds is None else str(backgrounds)),
        masker,
        Path(mask_weights) if mask_weights else None,
        mask_options,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary if out is None else out)
        if several:
            return audit_each(question, loads, folder)[0]
        return run(question, loads[""](), folder)
