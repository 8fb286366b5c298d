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
from typing import Any

import numpy as np

from bgbias.auditing import (
    attribution_scores,
    embedding,
    exchange,
    findings,
    forecast,
    mask_range,
    result,
    slices,
    workdir,
)
from bgbias.auditing.config import Question
from bgbias.auditing.embedding import equal_vectors, refuse_another_order, refuse_constant
from bgbias.auditing.finished import Audit
from bgbias.auditing.masker import describe_masks
from bgbias.auditing.output import to_audit
from bgbias.auditing.photos import PhotoCollection
from bgbias.auditing.preparations import compare
from bgbias.auditing.prepared_photos import Decoded, PreparedPhotos
from bgbias.auditing.result import AuditResult
from bgbias.auditing.resumable import count_missing
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, View
from bgbias.evaluation.embeddings import Embeddings
from bgbias.evaluation.photos import EvaluationPhotos
from bgbias.files.atomic import replacing, write_text
from bgbias.images import pixels
from bgbias.masks import policy
from bgbias.models.adapters import Adapted
from bgbias.progress import say, showing, size, track
from bgbias.report import queries as examples
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

    ``shared``: where prepared pixels lie instead, for the other models of a command. ``saving``: a folder for the embeddings, as
    ``exchange.read`` reads them.
    """
    with workdir.claim(folder, question, model) as work:
        preparations = compare(model, question.collection)
        for line in preparations.sentences:
            say(line)
        photos, prepared = _prepare(question, model, work, "embed", shared)
        vectors = embedding.embed_views(model, photos, question.views, work)
        if saving:
            exchange.write(saving, vectors, model, workdir.hash_views(question, model))
        shares = embedding.measure_shares(model, photos, question.asked, work)
        looks = attribution_scores.score_attribution(model, photos, question.asked.attribution, work)
        began = time.perf_counter()
        answers = workdir.fingerprint_model(question, model)
        others = {
            "shares": shares,
            "looks": looks,
            "preparations": preparations,
            "seconds_a_photo": (time.perf_counter() - began) / len(answers),
        }
        audit = to_audit(_conclude(question, model, photos, prepared, vectors, **others))
        audit.save(folder)
        workdir.finish(folder, workdir.hash_answer(question, model), answers)
        return audit


def audit_embeddings(
    question: Question, model: Adapted, vectors: Mapping[View, np.ndarray], folder: Path
) -> Audit:
    """The same from embeddings float32 [N, D] of unit length that were computed elsewhere, of what ``export`` wrote, in the order
    of the collection; ``model`` only says how it looks at photos, and there is neither attribution nor variance.
    """
    workdir.check_exported(workdir.hash_views(question, model))
    with workdir.claim(folder, question, model) as work:
        order = refuse_another_order(vectors, question.collection.table.ids)
        photos, prepared = _prepare(question, model, work, "read")
        model = replace(model, dim=vectors[CLEAN, 0].shape[1], notes=(*model.notes, order))
        audit = to_audit(_conclude(question, model, photos, prepared, vectors))
        audit.save(folder)
        return audit


def export(question: Question, model: Adapted, folder: Path) -> None:
    """Every view of every photo as PNG, for a model that runs elsewhere: ``<condition>-<draw>/<row>.png``, and ``photos.csv``,
    which says whose each row is. Files that are there stay; a folder with those of another question is a UserError.
    """
    digest = workdir.hash_views(question, model)
    workdir.begin_export(folder, digest)
    with workdir.claim(folder, question, model) as work:
        photos, _ = _prepare(question, model, work, "write")
        views = question.views
        unwritten = _list_unwritten(folder, views, len(photos.table))
        with showing(len(unwritten), "pictures") as done:
            for row in unwritten:
                pictures = photos.views(views, rows=range(row, row + 1))
                for file, view in zip(_list_files(folder, views, row), pictures, strict=True):
                    with replacing(file) as temporary:
                        temporary.write_bytes(pixels.encode_png(view))
                done(1)
        rows = photos.table.frame[["image_id", "class_name"]]
        write_text(folder / workdir.PHOTOS, rows.to_csv(index_label="row"))
        workdir.end_export(digest)


def _prepare(
    question: Question, model: Adapted, work: Path, task: forecast.Work, shared: Path | None = None
) -> tuple[EvaluationPhotos, PreparedPhotos]:
    """Photos, masks and backgrounds as the model sees them; what the whole takes is printed first."""
    at = workdir.locate_pixels(question, model, shared or work.parent)
    collection, config = question.collection, question.asked
    table = collection.table
    for line in model.guesses:
        say(line)
    backgrounds = question.backgrounds.pool(model.look.resize)
    _show_forecast(question, model, work, at, task)
    drawn = mask_range.select_drawn(question.masks[0]) if question.second else []
    for of_one in question.masks:
        unmasked = of_one.missing + [i for i in drawn if not of_one.is_cached(i)]
        for _ in track(of_one.make(unmasked), len(unmasked), "masks"):
            pass

    def decode(image_id: str) -> Decoded:
        mask, *second = (of_one.find(image_id) for of_one in question.masks)
        return collection.decode(image_id), mask, second[0] if second else None

    prepared = PreparedPhotos(at, table, model.look, decode, question.second is not None)
    usable = policy.usable(prepared.qualities, config.policy)
    _check_queries(collection, usable)
    photos = EvaluationPhotos(
        table,
        prepared.photos,  # type: ignore[arg-type]
        model.look.size,
        prepared.masks,  # type: ignore[arg-type]
        usable,
        backgrounds,
        prepared.backgrounds,  # type: ignore[arg-type]
        collection.same_view,
        prepared.second_masks,  # type: ignore[arg-type]
    )
    return photos, prepared


def _show_forecast(question: Question, model: Adapted, work: Path, at: Path, task: forecast.Work) -> None:
    """Say what is left before it begins, and refuse a disk that is too small for it."""
    from bgbias.attribution.any_model import choose_maps

    say("Timing a few photos ...")
    seconds_of_masks = sum(of_one.seconds_each() * len(of_one.missing) for of_one in question.masks)
    missing = sum(len(of_one.missing) for of_one in question.masks)
    collection, config = question.collection, question.asked
    table, views = collection.table, question.views
    count, (how, _) = len(table), choose_maps(model)
    todo = {
        "masks": missing,
        "photos": PreparedPhotos.count_missing(at, count),
        "pictures": len(_list_unwritten(work.parent.parent, views, count)) if task == "write" else 0,
        "embeddings": count_missing(work, embedding.VIEWS, count),
        "crossing": count_missing(work, embedding.CROSSING, min(config.objects, count)),
        "attribution": count_missing(work, how, min(config.attribution, count)),
    }
    tried = table.ids[: forecast.TRIED]
    photos = [collection.decode(i) for i in tried]
    with embedding.name_photos_in_errors(tried):
        expected = forecast.measure(question, model, task, photos, todo, seconds_of_masks / max(1, missing))
    goes_on = "what is left takes " if todo["photos"] < count else ""
    say(f"{count} photos, {len(views)} views of each: {goes_on}{expected}")
    # What is there already counts as room.
    exported = work.parent.parent.glob("*-*/*.png")
    there = sum(path.stat().st_blocks * 512 for path in (*work.rglob("*.npy"), *at.glob("*"), *exported))
    free = shutil.disk_usage(work).free + there
    if free < expected.disk:
        raise UserError(
            f"{work} has room for {size(free)}, and the audit needs {size(expected.disk)} while it runs:"
            f" {size(expected.disk - free)} more. Name another folder by --out, or fewer photos by --sample."
        )


def _list_files(folder: Path, views: Sequence[View], row: int) -> list[Path]:
    return [folder / f"{name}-{draw}" / f"{row:06}.png" for name, draw in views]


def _list_unwritten(folder: Path, views: Sequence[View], count: int) -> list[int]:
    return [row for row in range(count) if not all(f.exists() for f in _list_files(folder, views, row))]


def _conclude(
    question: Question,
    model: Adapted,
    photos: EvaluationPhotos,
    prepared: PreparedPhotos,
    vectors: Mapping[View, np.ndarray],
    **others: Any,
) -> AuditResult:
    """What follows from embeddings; ``others``: fields of the result that they do not give."""
    table = photos.table
    refuse_constant(vectors[CLEAN, 0], model.name)
    remarks = describe_masks(prepared, photos.usable, table.ids, question.masker, question.second)
    masked = np.array([i in photos.usable for i in table.ids])
    donors = photos.donors(list(vectors))
    embeddings = Embeddings(
        table.ids, table.labels, masked, vectors, donors, table.given, photos.originals, photos.places
    )
    if question.collection.labelled:
        others |= _measure_classes(question, photos, prepared, embeddings)
    return AuditResult(
        question=question,
        model=model,
        masker=question.masks[0].makers,
        shift=findings.shift(embeddings),
        qualities=prepared.qualities,
        usable=photos.usable,
        doubtful=result.select_doubtful(prepared),
        remarks=remarks,
        ties=equal_vectors(vectors[CLEAN, 0]),
        **others,
    )


def _measure_classes(
    question: Question, photos: EvaluationPhotos, prepared: PreparedPhotos, embeddings: Embeddings
) -> dict[str, Any]:
    """All that needs to know who should be found, by the names of the result's fields."""
    frame, qualities = photos.table.frame, prepared.qualities
    names = dict(zip(frame["label"].astype(int), frame["class_name"], strict=True))
    short = findings.strip_common_folder(names.values())
    unsure, session_of = examples.unsure(qualities), question.collection.sessions
    numbers = findings.compute_findings(embeddings, names, unsure)
    queries = numbers.photos[numbers.photos["lost"].notna()]
    sliced = queries.merge(slices.measure_masks(prepared), on="image_id")
    thirds = tuple(slices.make_thirds(sliced))
    first = queries.sort_values("image_id").drop_duplicates("class_name").set_index("class_name")["image_id"]
    measured = {
        "findings": numbers,
        "queries": examples.select_example_queries(
            [AskedModel("", embeddings, numbers.photos.set_index("image_id"))],
            photos,
            {n: short[name] for n, name in names.items()},
            unsure,
        ),
        "portraits": examples.portraits(
            {name: first[name] for name in numbers.classes["class_name"]}, photos
        ),
        "first": result.find_first_matches(embeddings),
        "pictures": result.make_pictures(numbers, photos),
        "thirds": thirds,
        "surely": slices.leave_out_unsure(sliced),
        # What a person drew is the object, however small.
        "better": tuple(slices.leave_out_small(sliced, thirds)) if question.masker else (),
        "leak": background_baseline.measure_leak(photos),
        "sessions": findings.compare_sessions(embeddings, session_of) if session_of else None,
    }
    if question.second:
        trusted = qualities[qualities["image_id"].isin(photos.usable)]
        own, second = question.masks
        measured["mask_range"] = mask_range.measure_mask_range(
            numbers.queries, findings.MODEL, trusted, own, second, question.second.kind
        )
    return measured


def _check_queries(collection: PhotoCollection, usable: frozenset[str]) -> None:
    frame = collection.table.frame
    alone = ~frame["label"].duplicated(keep=False)
    if collection.labelled and usable and not (frame["image_id"].isin(usable) & ~alone).any():
        raise UserError(
            f"None of the {len(usable)} photos with a trusted mask has another photo of its class: nobody is to be found. Take"
            " more photos, or look at the masks."
        )
