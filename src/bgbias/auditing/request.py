"""What somebody asks for, by the command or from Python: prepared, computed and, of several models, compared."""

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, overload

from bgbias.auditing import masker as masking
from bgbias.auditing import workdir
from bgbias.auditing.audit import run
from bgbias.auditing.backgrounds import find
from bgbias.auditing.comparison import ComparedAudits
from bgbias.auditing.config import AuditConfig, Question
from bgbias.auditing.finished import Audit
from bgbias.auditing.photos import choose, look_at
from bgbias.compute.device import pick
from bgbias.errors import UserError, name_arguments
from bgbias.models.adapters import OPTION_NAMES, Adapted, Options
from bgbias.models.adapters import load as adapted
from bgbias.models.adapters.reference import list_references
from bgbias.photos.sources import Source
from bgbias.photos.tables import NamedColumns
from bgbias.progress import say
from bgbias.results.uncertainty import FEWEST_CLASSES

Load = Callable[[], Adapted]
NO_INTERVAL = (
    "The drop is unknown, so that --fail-above cannot tell: take five classes or more, of four photos each, and a model that"
    " finds more than chance."
)


@dataclass(frozen=True)
class Request:
    """What is asked of photos, by the names of the command's options; ``audit`` says what each is."""

    sample: int | None
    masks: str | Path | None
    masker: str
    mask_weights: str | Path | None
    mask_options: Mapping[str, Any] | None
    second_masker: str | None
    second_mask_weights: str | Path | None
    backgrounds: str | Path | None
    draws: int
    attribution: int
    name: str | None
    class_level: int | None
    image_column: str
    label_column: str
    place: str | int


ASKED = tuple(field.name for field in fields(Request))


def prepare(
    photos: Source,
    loads: Mapping[str, Load],
    options: Options,
    asked: Request,
    *,
    has_references: bool = False,
    needs_interval: bool = False,
    command: str = "",
) -> tuple[Question, Mapping[str, Load]]:
    """The question, and what loads its models by their names. Each is loaded once to see that it can be,
    one at a time; a single one stays loaded.

    Whatever cannot be used is a UserError before the first photo is read. ``has_references``: models to
    compare the first one with are added. ``needs_interval``: too few classes for one are an error, too.
    """
    columns = NamedColumns(asked.image_column, asked.label_column, str(asked.place))
    chosen = choose(photos, asked.masks, asked.name, asked.class_level, asked.sample or None, columns)
    config = AuditConfig(draws=asked.draws, attribution=asked.attribution)
    backgrounds = find(None if asked.backgrounds is None else str(asked.backgrounds))
    masking.check(asked.masker, asked.mask_weights, asked.mask_options)
    if asked.second_masker:
        masking.check(asked.second_masker, asked.second_mask_weights, by=masking.OF_SECOND)
    elif asked.second_mask_weights:
        raise UserError(f"{masking.OF_SECOND} are those of --second-masker: name it, too, or leave them out.")
    (spec, load), *others = loads.items()
    first = load()
    for _, load in others:
        load()
    if has_references:
        references = list_references(spec, first, options)
        loads = {**loads, **{name: partial(adapted, name, own) for name, own in references.items()}}
    elif not others:
        loads = {spec: partial(replace, first)}
    del first
    collection = look_at(chosen)
    if needs_interval and (not collection.labelled or collection.classes < FEWEST_CLASSES):
        raise UserError(NO_INTERVAL)
    if asked.second_masker and not collection.labelled:
        raise UserError(
            "--second-masker says what perfect masks would give of the drop, which needs classes: leave it out."
        )
    for line in collection.describe():
        say(line)
    device, net, second = pick(options.device), None, None
    if not all(map(collection.has_truth, collection.table.ids)):
        net = masking.find(asked.masker, asked.mask_weights, device, asked.mask_options)
    if asked.second_masker:
        second = masking.find_second(asked.second_masker, asked.second_mask_weights, device, net)
    return Question(collection, net, backgrounds, config, command, second), loads


def audit_or_read(
    question: Question,
    model: Adapted,
    folder: Path,
    shared: Path | None = None,
    saving: Path | None = None,
) -> Audit:
    """The audit in ``folder``, computed unless its files are the answer already; one of another model or
    of other photos there is replaced, which is said first. ``shared`` and ``saving`` as in ``audit.run``.
    """
    if saving is None and workdir.is_answered(folder, question, model):
        say(
            f"{folder} has this audit already, of the same photos, masks, backgrounds and code, and of a"
            " model that answers alike: nothing was computed. To compute it again, name another folder by"
            " --out."
        )
        return Audit.load(folder)
    if before := workdir.name_another_audit(folder, question, model):
        say(
            f"{folder} holds an audit of {before}, which this one replaces when it is finished; to keep it,"
            " press Ctrl-C and name another folder by --out"
        )
    return run(question, model, folder, shared, saving)


def audit_each(
    question: Question, models: Mapping[str, Load], folder: Path, saving: Path | None = None
) -> tuple[ComparedAudits, dict[str, UserError]]:
    """Models by name, each in a folder of its own in ``folder`` (``workdir.name_folders``), beside the
    files of their comparison; their embeddings in such a folder of ``saving``, if that is given.

    One is loaded at a time; one that fails does not cost the others, and is given back with its error.
    If all fail, but for references, the first error is raised.
    """
    if not question.collection.labelled:
        raise UserError(
            f"{question.collection.name} has no classes: nobody knows which model finds more. Name them, or"
            " audit one model at a time."
        )
    audits: dict[str, Audit] = {}
    failed: dict[str, UserError] = {}
    folders = workdir.name_folders(models)
    pixels = folder / workdir.UNFINISHED  # those of one look are the same for all models
    for number, (subfolder, name) in enumerate(folders.items(), 1):
        say(f"\n{name} ({number} of {len(models)})")
        try:
            model = replace(models[name](), name=name)
            target = saving / subfolder if saving else None
            audits[name] = audit_or_read(question, model, folder / subfolder, pixels, target)
        except UserError as error:
            failed[name] = error
            say(f"{name} failed, and the others go on: {error}")
    shutil.rmtree(pixels, ignore_errors=True)
    if failed and all(audit.is_reference for audit in audits.values()):
        raise next(iter(failed.values()))
    compared = ComparedAudits(audits)
    compared.save(folder)
    return compared, failed


@overload
def audit(photos: Source, model: Mapping[str, object], **how: Any) -> ComparedAudits: ...  # type: ignore[overload-overlap]
@overload
def audit(photos: Source, model: object, **how: Any) -> Audit: ...
@name_arguments(*OPTION_NAMES)
def audit(
    photos: Source,
    model: object,
    *,
    out: str | Path | None = None,
    sample: int | None = 500,  # which two cores mask in minutes; intervals over classes hardly widen for it
    masks: str | Path | None = None,
    masker: str = "u2netp",
    mask_weights: str | Path | None = None,
    mask_options: Mapping[str, Any] | None = None,
    second_masker: str | None = None,
    second_mask_weights: str | Path | None = None,
    backgrounds: str | Path | None = None,
    draws: int = 5,
    attribution: int = 64,
    name: str | None = None,
    class_level: int | None = None,
    image_column: str = "",
    label_column: str = "",
    place: str | int = "",
    device: str = "auto",
    **looks: Any,
) -> Audit | ComparedAudits:
    """How much a model loses on these photos when only the background changes: what the command ``bgbias audit`` measures.

    ``photos``: a folder with a folder for each class, a zip, tar, CSV, Parquet or COCO file, the name of
    a dataset of params.yaml, a DataFrame, a ``datasets.Dataset`` or the folder of one, or a list of paths
    or pictures. ``image_column``, ``label_column``: those of a table whose names say nothing. ``place``: a
    table's column of where photos were taken, or the level of the folder that says it. ``model``:
    what the command's ``--model`` takes, or a network of torch's, an object with ``encode``, or a
    function from a list of pictures uint8 [H, W, 3] to their vectors; several of these by name are
    compared (``{"a": a, "b": b}``; ``ComparedAudits`` is given back). ``sample``: at most so many photos;
    None: all. ``mask_options``: the masker's, by name. ``second_masker``: another one; then the audit says
    between which values the drop would be, were all masks perfect. ``out``: a folder for the files; what was
    begun there goes on. ``looks``: ``weights``, ``size``, ``resize``, ``squash``, ``interpolation``,
    ``mean``, ``std``, ``pooling``, where the model does not tell them. What cannot be used is a UserError.

    >>> def colours(batch):
    ...     return [photo.mean((0, 1)) for photo in batch]
    >>> result = bgbias.audit("photos", colours, masks="masks", size=64, resize=64, attribution=4)
    >>> result.drop.low < result.drop.value < result.drop.high
    True
    >>> result.classes[["class_name", "clean", "corrupted"]].shape
    (6, 3)
    """
    typed = locals()
    if out is not None:
        workdir.check(Path(out), photos)
    options = Options(**looks, device=device)
    several = model if isinstance(model, Mapping) else {}
    models = {str(called): one for called, one in (several or {"": model}).items()}
    loads: Mapping[str, Load] = {called: partial(adapted, one, options) for called, one in models.items()}
    question, loads = prepare(photos, loads, options, Request(**{name: typed[name] for name in ASKED}))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary if out is None else out)
        if several:
            return audit_each(question, loads, folder)[0]
        return run(question, loads[""](), folder)
