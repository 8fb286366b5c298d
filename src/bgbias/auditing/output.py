"""What an audit leaves: an HTML report, ``audit.json`` for a program, the verdict's lines, tables, contact sheets.

Nothing of when or how fast it was made is in the files: the same question has the same bytes.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import pandas as pd

from bgbias.attribution.settings import Attribution
from bgbias.auditing import slices, workdir
from bgbias.auditing.findings import SETTINGS, interval, strip_common_folder
from bgbias.auditing.finished import Audit
from bgbias.auditing.result import AuditResult
from bgbias.files.atomic import as_json as json_text
from bgbias.files.store import StoreWriter
from bgbias.images.contact_sheet import contact_sheet
from bgbias.photos.examination import TURNED_MASKS
from bgbias.report import html, sheets
from bgbias.report.html import inside, outline
from bgbias.report.queries import UNSURE, ShownQuery
from bgbias.results.decomposition import STEPS
from bgbias.results.uncertainty import Estimate
from bgbias.version import VERSION

SCHEMA = 1
SHARES = ("object", "background", "interaction")
CLASSES = 500  # rows of the page's table; classes.csv has all
SMALL = 150  # pixels
CAPTION = 28  # letters that fit below a picture


def as_json(audit: AuditResult) -> dict[str, Any]:
    """``audit.json``: docs/audit.md says what each entry is. Shares lie in 0..1; what cannot be had is null."""
    question, masker, findings = audit.question, audit.question.masker, audit.findings
    numbers = {
        "schema": SCHEMA,
        "bgbias": VERSION,
        "verdict": audit.verdict,
        "photos": question.collection.as_json() | {"queries": audit.query_count},
        "queries": audit.sentences("evidence"),
        "model": {
            "name": audit.model.name,
            "dim": audit.model.dim,
            "look": str(audit.model.look),
            "told": audit.model.notes,
            "guesses": audit.guesses,
            "map_at_r_by_preparation": audit.preparations.map_at_r,
        },
        "masks": {
            "masker": audit.masker,
            "key": masker.key if masker else "",
            "mean_clarity": audit.qualities["clarity"].mean(),
            "mean_area": audit.qualities["area"].mean(),
            "remarks": audit.remarks,
        },
        "backgrounds": {"told": question.backgrounds.summary, "digest": question.backgrounds.digest[:16]},
        "asked": question.asked.as_json(),
        "equal_embeddings": audit.ties,
        "background_alone": audit.leak and _expand(audit.leak, "more"),
        "thirds": [_expand(third, "lost") for third in audit.thirds],
        "surely_masked": audit.surely and _expand(audit.surely, "drop", "drawn", "least"),
        "better_masked": [
            {"prop": "area"} | _expand(part, "drop", "drawn", "others") for part in audit.better
        ],
        "embedding_shift": audit.shift.drop(columns="image_id").mean().to_dict(),
        "shares_of_variance": audit.shares and {name: getattr(audit.shares, name) for name in SHARES},
        "attribution": {
            "how": audit.looks.how,
            "photos": audit.looks.scores["score"].count(),
            "rank_correlation_with_loss": audit.score_and_loss[0],
            **interval(audit.looks.mean),
        },
        "drop": findings and findings.drops,
        "steps": findings and findings.steps,
        "levels": findings and findings.levels,
        "map_at_r_by_chance": findings and findings.by_chance,
        "classes_losing_half": findings and audit.losing_half,
        "places": findings and findings.places and _expand(findings.places),
        "mask_range": audit.mask_range and _expand(audit.mask_range),
        "sessions": audit.sessions and _expand(audit.sessions),
        "cue_conflict": findings
        and interval(findings.conflict) | {"if_errors_were_even": audit.conflict_of_errors},
    }
    return cast("dict[str, Any]", replace_nan(numbers))


def to_audit(audit: AuditResult) -> Audit:
    """The audit with all its files, the page last."""
    of_photos = list_photos(audit)
    files = {
        "verdict.txt": f"{audit.terminal}\n".encode(),
        "photos.csv": of_photos.to_csv(index=False).encode(),
        "photos.parquet": of_photos.to_parquet(index=False),
    }
    if audit.findings is not None:
        files["classes.csv"] = audit.findings.classes.to_csv(index=False).encode()
        files["queries.parquet"] = audit.findings.queries.to_parquet(index=False, compression="zstd")
        files["pictures.zip"] = _zip(audit.pictures)
    if not math.isnan(audit.seconds_a_photo):
        timing = {"seconds_a_photo": audit.seconds_a_photo, "device": audit.model.device}
        files["timing.json"] = json_text(timing).encode()
    files |= {f"{kind}.jpg": _contact_sheet(queries) for kind, queries in audit.queries.items()}
    others = [name for name in workdir.WRITTEN if name in files or name == "audit.html"]
    files[workdir.VERDICT] = json_text(as_json(audit) | {"files": others}).encode()
    names = [workdir.VERDICT, *(name for name in others if name != "audit.html")]
    return Audit(files | {"audit.html": _render_page(audit, names).encode()})


def _zip(pictures: Mapping[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_STORED) as archive:
        store = StoreWriter(archive)
        for name, picture in pictures.items():
            store.add(name, picture)
    return data.getvalue()


def _contact_sheet(queries: Sequence[ShownQuery]) -> bytes:
    labels, pictures = zip(*(entry for query in queries for entry in _list_pictures(query)), strict=True)
    captions = [label if len(label) < CAPTION else f"{label[: CAPTION - 3]}..." for label in labels]
    data = io.BytesIO()
    contact_sheet(pictures, 4, captions).save(data, "JPEG", quality=88)
    return data.getvalue()


def _list_pictures(query: ShownQuery) -> Iterator[tuple[str, np.ndarray]]:
    """The photo, its object on another background, and what each finds first."""
    yield query.class_name, query.photo
    yield "another background", query.elsewhere
    (answer,) = query.answers
    for first in (answer.found[0], answer.found_elsewhere[0]):
        yield f"{'right' if first.right else 'wrong'}: {first.class_name}", first.picture


def list_photos(audit: AuditResult) -> pd.DataFrame:
    """A row a photo: its class, its mask's measures, and, of queries, MAP@R in each condition, what is lost, and the shift."""
    trusted = audit.qualities["image_id"].isin(audit.usable)
    parts = [audit.qualities.assign(trusted=trusted)]
    if audit.findings is not None:
        of_queries = audit.findings.photos.drop(columns="class_name")
        levels = {name: f"map_at_r_{name}" for name in of_queries.columns.difference(["image_id", "lost"])}
        parts.append(of_queries.rename(columns=levels))
    if audit.first is not None:
        parts.append(audit.first)
    parts.append(audit.shift.set_index("image_id").add_prefix("cosine_").reset_index())
    parts.append(audit.looks.scores[["image_id", "score"]].rename(columns={"score": "attribution"}))
    frame = audit.question.collection.table.frame[["image_id", "class_name"]]
    for part in parts:
        frame = frame.merge(part, on="image_id", how="left")
    return frame


def _expand(part: object, estimate: str = "", *hidden: str) -> dict[str, Any]:
    """A frozen value's fields but for the ``hidden``; of the field ``estimate`` its number and interval stand among them."""
    fields = {
        name: interval(value) if isinstance(value, Estimate) else value
        for name, value in vars(part).items()
        if name not in hidden
    }
    own = fields.pop(estimate, {})
    return fields | own


def replace_nan(value: Any) -> Any:
    """A value for JSON, which knows neither NaN nor NumPy's numbers: None and Python's in their place."""
    if isinstance(value, Mapping):
        return {name: replace_nan(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_nan(part) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _render_page(audit: AuditResult, files: Sequence[str]) -> str:
    issues = audit.question.collection.oddities
    values: dict[str, Any] = {
        "audit": audit,
        "model": workdir.strip_folders(audit.model.name),
        "command": workdir.strip_command(audit.question.command),
        "of_turned_masks": [issue.describe() for issue in issues if issue.name in TURNED_MASKS],
        "version": VERSION,
        "files": files,
        "samples": Attribution().samples,
        "outlined": lambda shown: inside(outline(shown.photo, shown.mask), SMALL),
        "mapped": lambda shown: inside(
            np.round(255 * sheets.overlay(shown.photo, shown.attribution)).astype(np.uint8), SMALL
        ),
    }
    return html.render("audit.html", values | _fill_parts(audit))


def _fill_parts(audit: AuditResult) -> dict[str, Any]:
    findings = audit.findings
    if findings is None:
        return {}
    short = strip_common_folder(findings.classes["class_name"])
    steps = {setting: [audit.step(name, setting) for name in audit.step_titles] for setting in SETTINGS}
    parts = {name: audit.step(name) for name in STEPS}
    least = audit.drop().low
    is_known = audit.leak is not None and not math.isnan(audit.leak.more.low + least)
    tested = is_known and audit.has_something_to_lose
    is_tested = not any(math.isnan(part.low) for part in parts.values())
    return {
        "four": {(audit.leak.found, least > 0): ()} if audit.leak and tested else {},
        "spread": _find_axis_ends([*chain(*steps.values()), *(third.lost for third in audit.thirds)]),
        "significant": [name for name, part in parts.items() if part.low > 0] if is_tested else None,
        "classes": [
            row | {"name": short[row["class_name"]], "picture": audit.portraits.get(row["class_name"], "")}
            for row in findings.classes.head(CLASSES).to_dict("records")
        ],
        "properties": slices.PROPERTIES,
        "unsure": UNSURE,
    }


def _find_axis_ends(estimates: list[Estimate]) -> tuple[int, int]:
    """The ends of the lines that points are drawn on, in tens of points."""
    ends = np.array([[e.value, e.low, e.high] for e in estimates])
    low, high = 100 * np.nanmin(ends, initial=0), 100 * np.nanmax(ends, initial=0.1)
    return 10 * math.floor(max(low, -100) / 10), 10 * math.ceil(min(high, 100) / 10)
