"""The audit of one model on one collection of photos, from masks to a verdict; killed at any moment, it goes on.

What is unfinished lies in a folder inside the output's, named by all that it depends on: another question never meets the pixels
or embeddings of this one. Masks lie in the person's cache, under the bytes of their photos, for every audit to come.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias.auditing import (
    attribution_scores,
    embedding,
    exchange,
    findings,
    forecast,
    mask_range,
    result,
    sessions,
    slices,
    workdir,
)
from bgbias.auditing.config import Question
from bgbias.auditing.embedding import equal_vectors, refuse_another_order, refuse_constant
from bgbias.auditing.finished import Audit
from bgbias.auditing.mask_range import MaskRange
from bgbias.auditing.masker import Masks, trusted
from bgbias.auditing.output import to_audit
from bgbias.auditing.photos import PhotoCollection
from bgbias.auditing.preparations import compare
from bgbias.auditing.prepared_photos import Decoded, PreparedPhotos
from bgbias.auditing.result import AuditResult
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View
from bgbias.evaluation.crossing import Shares
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.atomic import replacing, write_text
from bgbias.images import pixels
from bgbias.models.adapters import Adapted
from bgbias.progress import say, showing, size, track
from bgbias.report import queries as asking
from bgbias.report.queries import AskedModel
from bgbias.results import background_baseline


def run(
    question: Question,
    model: Adapted,
    folder: Path,
    shared: Path | None = None,
    saving: Path | None = None,
) -> Audit:
    """Everything from masks to numbers, and the audit's files in ``folder``, where what is unfinished lies as well.

    ``shared``: where prepared pixels lie instead, for the other models of a command (``workdir.sharing_pixels``). ``saving``:
    a folder for the embeddings, as ``exchange.read`` reads them.
    """
    with workdir.working(folder, workdir.hash_question(question, model), workdir.noise(model)) as work:
        preparations = compare(model, question.collection)
        for line in preparations.sentences:
            say(line)
        photos, prepared = _prepare(question, model, work, "embed", shared)
        views = question.views
        found = embedding.embed_views(model, photos, views, work)
        if saving:
            exchange.write(saving, found, model, workdir.hash_views(question, model))
        shares = embedding.shares(model, photos, question.asked, work)
        looked = attribution_scores.score_attribution(model, photos, question.asked.attribution, work)
        measured = _conclude(question, model, photos, prepared, found, shares, looked)
        began = time.perf_counter()
        answers = workdir.fingerprint_model(question, model)
        seconds = (time.perf_counter() - began) / len(answers)
        audit = to_audit(replace(measured, preparations=preparations, seconds_a_photo=seconds))
        audit.save(folder)
        workdir.finish(folder, workdir.hash_answer(question, model), answers)
        return audit


def of_embeddings(
    question: Question, model: Adapted, vectors: Mapping[View, np.ndarray], folder: Path
) -> Audit:
    """The same from embeddings float32 [N, D] of unit length that were computed elsewhere, of what ``export`` wrote, in the order
    of the collection; ``model`` only says how it looks at photos, and there is neither attribution nor variance.
    """
    digest = workdir.hash_views(question, model)
    workdir.check_exported(digest)
    with workdir.working(folder, digest, workdir.noise(model)) as work:
        if model.name == exchange.NAME:  # what we saved ourselves is in order
            refuse_another_order(vectors, question.collection.table.ids)
        photos, prepared = _prepare(question, model, work, "read")
        named = replace(model, dim=vectors[CLEAN, 0].shape[1])
        audit = to_audit(
            _conclude(question, named, photos, prepared, vectors, None, attribution_scores.NOWHERE)
        )
        audit.save(folder)
        return audit


def export(question: Question, model: Adapted, folder: Path) -> None:
    """Every view of every photo as PNG, for a model that runs elsewhere: ``<condition>-<draw>/<row>.png``, and ``photos.csv``,
    which says whose each row is. Files that are there stay; a folder with those of another question is a UserError.
    """
    digest = workdir.hash_views(question, model)
    workdir.begin_export(folder, digest)
    with workdir.working(folder, digest, workdir.noise(model)) as work:
        photos, _ = _prepare(question, model, work, "write")
        views = question.views
        unwritten = _unwritten(folder, views, len(photos.table))
        with showing(len(unwritten), "pictures") as done:
            for row in unwritten:
                shown_in = photos.views(views, rows=range(row, row + 1))
                for file, view in zip(_pictures(folder, views, row), shown_in, strict=True):
                    with replacing(file) as temporary:
                        temporary.write_bytes(pixels.encode_png(view))
                done(1)
        listed = photos.table.frame[["image_id", "class_name"]]
        write_text(folder / workdir.PHOTOS, listed.to_csv(index_label="row"))
        workdir.end_export(digest)


def _prepare(
    question: Question, model: Adapted, work: Path, does: forecast.Work, shared: Path | None = None
) -> tuple[EvaluationPhotos, PreparedPhotos]:
    """Photos, masks and backgrounds as the model sees them; what the whole takes is told first."""
    at = workdir.pixels_of(question, model, shared or work.parent)
    collection, asked = question.collection, question.asked
    table = collection.table
    for line in model.guesses:
        say(line)
    backgrounds = question.backgrounds.pool(model.look.resize)
    masks, second = _masks(question)
    both = [masks, *([second] if second else [])]
    _foretell(question, model, work, at, does, both)
    drawn = mask_range.some_drawn(masks) if second else []
    for of_one in both:
        unmasked = of_one.missing + [i for i in drawn if not of_one.is_kept(i)]
        for _ in track(of_one.make(unmasked), len(unmasked), "masks"):
            pass

    def decode(image_id: str) -> Decoded:
        photo = pixels.decode(collection.read(image_id), image_id)
        return photo, masks.of(image_id), second.of(image_id) if second else None

    prepared = PreparedPhotos(at, table, model.look, decode, second is not None)
    usable = prepared.usable(asked.policy)
    _check_queries(collection, usable)
    photos = EvaluationPhotos(
        table,
        prepared.photos,  # type: ignore[arg-type]
        model.look.size,
        prepared.masks,  # type: ignore[arg-type]
        usable,
        backgrounds,
        prepared.behind,  # type: ignore[arg-type]
        collection.same_view,
        prepared.second_masks,  # type: ignore[arg-type]
    )
    return photos, prepared


def _masks(question: Question) -> tuple[Masks, Masks | None]:
    collection, second = question.collection, question.second
    return Masks(collection, question.masker), Masks(collection, second) if second else None


def _foretell(
    question: Question, model: Adapted, work: Path, at: Path, does: forecast.Work, masks: Sequence[Masks]
) -> None:
    """Say what is left before it begins, and refuse a disk that is too small for it."""
    say("Timing a few photos ...")
    seconds_of_masks = sum(of_one.seconds_each() * len(of_one.missing) for of_one in masks)
    missing = sum(len(of_one.missing) for of_one in masks)
    collection, asked = question.collection, question.asked
    table, views = collection.table, question.views
    count = len(table)
    left = {
        "masks": missing,
        "photos": PreparedPhotos.left(at, count),
        "pictures": len(_unwritten(work.parent.parent, views, count)) if does == "write" else 0,
        "embeddings": embedding.photos_left(work, count),
        "crossing": embedding.objects_left(work, min(asked.objects, count)),
        "attribution": attribution_scores.left(model, work, min(asked.attribution, count)),
    }
    tried = table.ids[: forecast.TRIED]
    photos = [pixels.decode(collection.read(i), i) for i in tried]
    with embedding.name_photos_in_errors(tried):
        expected = forecast.measure(question, model, does, photos, left, seconds_of_masks / max(1, missing))
    goes_on = "what is left takes " if left["photos"] < count else ""
    say(f"{count} photos, {len(views)} views of each: {goes_on}{expected}")
    _room(work, at, expected.disk)


def _pictures(folder: Path, views: Sequence[View], row: int) -> list[Path]:
    return [folder / f"{name}-{draw}" / f"{row:06}.png" for name, draw in views]


def _unwritten(folder: Path, views: Sequence[View], count: int) -> list[int]:
    return [row for row in range(count) if not all(f.exists() for f in _pictures(folder, views, row))]


def _conclude(
    question: Question,
    model: Adapted,
    photos: EvaluationPhotos,
    prepared: PreparedPhotos,
    vectors: Mapping[View, np.ndarray],
    shares: Shares | None,
    looked: attribution_scores.Looks,
) -> AuditResult:
    table = photos.table
    refuse_constant(vectors[CLEAN, 0], model.name)
    remarks = trusted(prepared, photos.usable, table.ids, question.masker)
    masked = np.array([i in photos.usable for i in table.ids])
    donors = photos.donors(list(vectors))
    embeddings = Embeddings(
        table.ids, table.labels, masked, vectors, donors, table.given, photos.originals, photos.places
    )
    audit = AuditResult(
        question=question,
        model=model,
        masker=_masks(question)[0].makers,
        shift=findings.shift(embeddings),
        shares=shares,
        looks=looked,
        qualities=prepared.qualities,
        usable=photos.usable,
        doubtful=result.doubtful(prepared),
        remarks=remarks,
        ties=equal_vectors(vectors[CLEAN, 0]),
    )
    return _with_classes(audit, photos, prepared, embeddings) if question.collection.labelled else audit


def _with_classes(
    audit: AuditResult, photos: EvaluationPhotos, prepared: PreparedPhotos, embeddings: Embeddings
) -> AuditResult:
    """The same with all that needs to know who should be found."""
    frame, qualities = photos.table.frame, prepared.qualities
    names = dict(zip(frame["label"].astype(int), frame["class_name"], strict=True))
    unsure, known = asking.unsure(qualities), audit.question.collection.sessions
    found = findings.compute_findings(embeddings, names, unsure)
    properties = slices.measure_masks(prepared)
    thirds = tuple(slices.thirds(found.photos, properties))
    asked = AskedModel("", embeddings, found.photos.set_index("image_id"))
    short = findings.strip_common_folder(names.values())
    queries = found.photos[found.photos["lost"].notna()].sort_values("image_id")
    first = queries.drop_duplicates("class_name").set_index("class_name")["image_id"]
    return replace(
        audit,
        findings=found,
        queries=asking.select_example_queries(
            [asked], photos, {n: short[name] for n, name in names.items()}, unsure
        ),
        portraits=asking.portraits({name: first[name] for name in found.classes["class_name"]}, photos),
        first=result.first_found(embeddings),
        pictures=result.pictures(found, photos),
        thirds=thirds,
        surely=slices.surely_masked(found.photos, properties),
        # What a person drew is the object, however small.
        better=() if audit.is_drawn else tuple(slices.better_masked(found.photos, properties, thirds)),
        leak=background_baseline.measure_leak(photos),
        mask_range=_mask_range(audit, prepared, found.queries),
        sessions=sessions.compare(embeddings, [known.get(i, "") for i in embeddings.ids]) if known else None,
    )


def _mask_range(audit: AuditResult, prepared: PreparedPhotos, queries: pd.DataFrame) -> MaskRange | None:
    masks, second = _masks(audit.question)
    if second is None:
        return None
    agreement = prepared.qualities.set_index("image_id")["agreement"]
    made = agreement[agreement.index.isin(audit.usable) & ~agreement.index.isin(masks.drawn)]
    share = mask_range.share_of_object(mask_range.some_drawn(masks), masks, second)
    return mask_range.compute_mask_range(queries, findings.MODEL, second.makers, float(made.mean()), share)


def _check_queries(collection: PhotoCollection, usable: frozenset[str]) -> None:
    """Refuse photos of which none with a trusted mask has another one of its class to find."""
    frame = collection.table.frame
    alone = ~frame["label"].duplicated(keep=False)
    if collection.labelled and usable and not (frame["image_id"].isin(usable) & ~alone).any():
        raise UserError(
            f"None of the {len(usable)} photos with a trusted mask has another photo of its class: nobody is to be found. Take"
            " more photos, or look at the masks."
        )


def _room(work: Path, at: Path, needed: int) -> None:
    """Refuse a disk that is too small before anything is made; what is there already counts as room."""
    exported = work.parent.parent.glob("*-*/*.png")
    there = sum(path.stat().st_blocks * 512 for path in (*work.rglob("*.npy"), *at.glob("*"), *exported))
    free = shutil.disk_usage(work).free + there
    if free < needed:
        raise UserError(
            f"{work} has room for {size(free)}, and the audit needs {size(needed)} while it runs: {size(needed - free)} more."
            " Name another folder by --out, or fewer photos by --sample."
        )
