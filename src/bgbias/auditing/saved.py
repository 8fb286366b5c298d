"""What an audit leaves: ``audit.json`` for a program, the verdict's lines, tables of classes and photos, contact sheets.

Nothing of when or how fast it was made is in the files: the same question has the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bgbias.auditing import text, workplace
from bgbias.auditing.measured import Measured
from bgbias.auditing.text import AuditFacts
from bgbias.files.atomic import replacing, write_json, write_text
from bgbias.files.store import writing
from bgbias.images.contact_sheet import contact_sheet
from bgbias.report import queries as asking
from bgbias.report.queries import ShownQuery
from bgbias.results.uncertainty import Estimate
from bgbias.version import VERSION

SCHEMA = 1
SHARES = ("object", "background", "interaction")
CAPTION = 28  # letters that fit below a picture


def as_json(audit: Measured) -> dict[str, Any]:
    """``audit.json``: docs/audit.md says what each entry is. Shares lie in 0..1; what cannot be had is null."""
    found, facts = audit.findings, AuditFacts(audit)
    return {
        "schema": SCHEMA,
        "bgbias": VERSION,
        "verdict": text.verdict(audit),
        "files": files(audit),
        "photos": audit.collection.as_json() | {"queries": facts.queries},
        "queries": text.sentences(audit, "evidence"),
        "model": {
            "name": audit.model.name,
            "dim": audit.model.dim,
            "look": str(audit.model.look),
            "told": list(audit.model.told),
            "guesses": facts.guesses,
            "map_at_r_by_preparation": dict(audit.preparations.map_at_r),
        },
        "masks": {
            "masker": audit.masker,
            "key": audit.masker_key,
            "mean_clarity": known(audit.qualities["clarity"].mean()),
            "mean_area": known(audit.qualities["area"].mean()),
            "remarks": list(audit.remarks),
        },
        "backgrounds": {"told": audit.backgrounds.told, "digest": audit.backgrounds.digest[:16]},
        "asked": audit.asked.told,
        "drop": None if found is None else records(found.drops),
        "steps": None if found is None else records(found.steps),
        "levels": None if found is None else records(found.levels),
        "map_at_r_by_chance": None if found is None else known(found.by_chance),
        "equal_embeddings": audit.ties,
        "classes_losing_half": None if found is None else facts.losing_half,
        "cue_conflict": None
        if found is None
        else _estimate(found.conflict) | {"if_errors_were_even": known(facts.conflict_of_errors)},
        "background_alone": None
        if audit.leak is None
        else {"by_chance": audit.leak.by_chance, **_estimate(audit.leak.more)},
        "thirds": [
            {k: known(v) for k, v in vars(third).items() if k != "lost"} | _estimate(third.lost)
            for third in audit.thirds
        ],
        "surely_masked": None
        if audit.surely is None
        else {"queries": audit.surely.queries, "others": audit.surely.others, **_estimate(audit.surely.drop)},
        "better_masked": [
            {"prop": some.prop, "least": some.least, "queries": some.queries, **_estimate(some.drop)}
            for some in audit.better
        ],
        "embedding_shift": {c: known(audit.shift[c].mean()) for c in audit.shift.columns if c != "image_id"},
        "shares_of_variance": None
        if audit.shares is None
        else {name: known(float(getattr(audit.shares, name))) for name in SHARES},
        "attribution": {
            "how": audit.looks.how,
            "photos": int(audit.looks.scores["score"].notna().sum()),
            "rank_correlation_with_loss": known(facts.score_and_loss[0]),
            **_estimate(audit.looks.mean),
        },
    }


def files(audit: Measured) -> list[str]:
    """The names of all files of an audit, but for ``audit.json``."""
    absent = set() if audit.findings is not None else {"classes.csv", "queries.parquet", "pictures.zip"}
    absent |= {"timing.json"} if math.isnan(audit.seconds_a_photo) else set()
    absent |= {f"{title}.jpg" for title in asking.KINDS} - {f"{title}.jpg" for title in audit.queries}
    return [name for name in workplace.WRITTEN if name not in absent]


def write(audit: Measured, folder: Path) -> None:
    """All files of an audit but the page, each complete or absent. Those of an earlier one that this one
    has not go.
    """
    (folder / workplace.FINISHED).unlink(missing_ok=True)
    for name in workplace.made_before(folder) - {workplace.VERDICT, *files(audit)}:
        (folder / name).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / workplace.VERDICT, as_json(audit))
    write_text(folder / "verdict.txt", text.terminal(audit) + "\n")
    of_photos = photos(audit)
    write_text(folder / "photos.csv", of_photos.to_csv(index=False))
    with replacing(folder / "photos.parquet") as temporary:
        of_photos.to_parquet(temporary, index=False)
    if audit.findings is not None:
        write_text(folder / "classes.csv", audit.findings.classes.to_csv(index=False))
        with replacing(folder / "queries.parquet") as temporary:
            audit.findings.queries.to_parquet(temporary, index=False, compression="zstd")
        with writing(folder / "pictures.zip") as store:
            for name, data in audit.pictures.items():
                store.add(name, data)
    if not math.isnan(audit.seconds_a_photo):
        timing = {"seconds_a_photo": audit.seconds_a_photo, "device": audit.model.device}
        write_json(folder / "timing.json", timing)
    for title, queries in audit.queries.items():
        labels, pictures = zip(*(entry for query in queries for entry in _four(query)), strict=True)
        with replacing(folder / f"{title}.jpg") as temporary:
            shown = [label if len(label) < CAPTION else f"{label[: CAPTION - 3]}..." for label in labels]
            contact_sheet(pictures, 4, shown).save(temporary, "JPEG", quality=88)


def _four(query: ShownQuery) -> Iterator[tuple[str, np.ndarray]]:
    """The photo, its object in front of another background, and what each finds first."""
    yield query.class_name, query.photo
    yield "another background", query.elsewhere
    (answer,) = query.answers
    for first in (answer.found[0], answer.found_elsewhere[0]):
        yield f"{'right' if first.right else 'wrong'}: {first.class_name}", first.picture


def photos(audit: Measured) -> pd.DataFrame:
    """A row a photo: its class, its mask's measures, and, of queries, MAP@R in each condition, what is lost, and the shift."""
    frame = audit.collection.table.frame[["image_id", "class_name"]].merge(
        audit.qualities.assign(trusted=audit.qualities["image_id"].isin(audit.usable)),
        on="image_id",
        how="left",
    )
    if audit.findings is not None:
        of_queries = audit.findings.photos.drop(columns="class_name").add_prefix("map_at_r_")
        frame = frame.merge(of_queries, left_on="image_id", right_on="map_at_r_image_id", how="left")
        frame = frame.drop(columns="map_at_r_image_id").rename(columns={"map_at_r_lost": "lost"})
    if audit.first is not None:
        frame = frame.merge(audit.first, on="image_id", how="left")
    frame = frame.merge(
        audit.shift.rename(columns={c: f"cosine_{c}" for c in audit.shift.columns if c != "image_id"}),
        on="image_id",
        how="left",
    )
    return frame.merge(
        audit.looks.scores[["image_id", "score"]].rename(columns={"score": "attribution"}),
        on="image_id",
        how="left",
    )


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows for JSON, which knows no NaN."""
    return [{str(k): known(v) for k, v in row.items()} for row in frame.to_dict("records")]


def _estimate(found: Estimate) -> dict[str, float | None]:
    return {"value": known(found.value), "low": known(found.low), "high": known(found.high)}


def known(value: Any) -> Any:
    """The value, or None where it is no number."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
