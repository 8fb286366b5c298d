"""A finished audit as a person holds it in Python: its files, and what they say."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import escape

from bgbias.auditing import workdir
from bgbias.errors import UserError
from bgbias.evaluation.conditions import CLEAN, QUERY_ONLY, SYMMETRIC
from bgbias.files.atomic import replacing
from bgbias.report.html import url
from bgbias.results.rows import MAP_AT_R
from bgbias.results.uncertainty import UNKNOWN, Estimate

PAGE, REFERENCE = "audit.html", "reference:"
# Times chance, and of the way from chance to 1: a model below both finds hardly more than chance.
HARDLY_TIMES, HARDLY_WAY = 2, 0.1


class Audit:
    """What an audit found: ``print(audit)`` shows what the terminal shows, a notebook the verdict, the
    levels and the queries that lose most. ``audit.save(folder)`` writes its files, ``Audit.load(folder)``
    reads them.
    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        """``files``: those that docs/audit.md names, by name."""
        self._files = dict(files)

    @classmethod
    def load(cls, folder: Path | str) -> Audit:
        """The audit that was written to ``folder``; a UserError if there is none, or a file of it is gone."""
        folder = Path(folder)
        names = workdir.list_earlier_files(folder)
        if not names:
            raise UserError(
                f"{folder} holds no audit. Name the folder of one, or make it: bgbias audit PHOTOS --model"
                f" MODEL --out {folder}"
            )
        missing = sorted(name for name in names if not (folder / name).is_file())
        if missing:
            raise UserError(f"{folder / missing[0]} is missing; run the same audit again with --out {folder}")
        return cls({name: (folder / name).read_bytes() for name in sorted(names)})

    def save(self, folder: Path | str) -> list[Path]:
        """All files of it in ``folder``, the HTML report among them; gives their paths."""
        folder = Path(folder)
        workdir.check(folder, None)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (workdir.FINISHED, *(workdir.list_earlier_files(folder) - self._files.keys())):
            (folder / name).unlink(missing_ok=True)
        # What is written of the files comes first: it says whose they are.
        for name in sorted(self._files, key=lambda name: (name != workdir.VERDICT, name == PAGE)):
            with replacing(folder / name) as temporary:
                temporary.write_bytes(self._files[name])
        return [folder / name for name in self._files]

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """What ``audit.json`` holds (docs/audit.md)."""
        numbers: dict[str, Any] = json.loads(self._files[workdir.VERDICT])
        return numbers

    @property
    def name(self) -> str:
        """The model's, of a file without its folders."""
        return workdir.strip_folders(str(self.numbers["model"]["name"]))

    @property
    def is_reference(self) -> bool:
        """Whether the model was asked for comparison alone."""
        return self.name.startswith(REFERENCE)

    @property
    def verdict(self) -> str:
        """The answer in a sentence or two."""
        return str(self.numbers["verdict"])

    @property
    def drop(self) -> Estimate:
        """By which share MAP@R is lower where only the query's background changes, 0..1, with its interval
        over classes; unknown without labels.
        """
        return self.estimate("drop", setting=QUERY_ONLY, unit="relative")

    @property
    def finds_hardly_more_than_chance(self) -> bool:
        """Whether MAP@R on original photos is close to that of a random order, so that no drop says anything."""
        clean = self.estimate("levels", metric=MAP_AT_R, setting=SYMMETRIC, condition=CLEAN)
        return is_hardly_more(clean.value, _to_number(self.numbers["map_at_r_by_chance"]))

    def estimate(self, entry: str, **where: str) -> Estimate:
        """The number of an ``entry`` of ``numbers`` (``attribution``, ``cue_conflict``), or of its row that
        has these values (``drop``, ``levels``, ``steps``); unknown where there is none.
        """
        content = self.numbers[entry]
        return find_estimate([content] if isinstance(content, dict) else content or (), **where)

    @cached_property
    def classes(self) -> pd.DataFrame:
        """A row a class, the greatest loss first (docs/audit.md); a UserError without labels."""
        if "classes.csv" not in self._files:
            name = self.numbers["photos"]["name"]
            raise UserError(f"{name} has no classes, so that nobody knows what should be found.")
        text = io.BytesIO(self._files["classes.csv"])
        return pd.read_csv(text, dtype={"class_name": str}, keep_default_na=False, na_values=[""])

    def to_frame(self) -> pd.DataFrame:
        """A row a photo: its class, its mask's measures, and, of queries, MAP@R in each condition, what is
        lost, and which photos it finds first.
        """
        return pd.read_parquet(io.BytesIO(self._files["photos.parquet"]))

    @cached_property
    def queries(self) -> pd.DataFrame:
        """A row for each query and view, with every metric (``evaluation.scores.score_queries``)."""
        return pd.read_parquet(io.BytesIO(self._files["queries.parquet"]))

    @property
    def seconds_a_photo(self) -> float:
        """What preparing and embedding a photo took on the machine of the audit; NaN if the model ran
        elsewhere.
        """
        timing = json.loads(self._files.get("timing.json", b"{}"))
        return _to_number(timing.get("seconds_a_photo"))

    @property
    def pictures(self) -> bytes:
        """A zip of small pictures of queries (docs/audit.md)."""
        return self._files["pictures.zip"]

    def __str__(self) -> str:
        return self._files["verdict.txt"].decode().removesuffix("\n")

    def __repr__(self) -> str:
        return (
            f"<Audit of {self.numbers['model']['name']} on {self.numbers['photos']['name']}: {self.verdict}>"
        )

    def _repr_html_(self) -> str:
        parts = [f"<p><strong>{escape(self.verdict)}</strong></p>", f"<pre>{escape(str(self))}</pre>"]
        if "worst.jpg" in self._files:
            caption = "The queries that lose most: original, on another background, and what each finds first"
            parts.append(f'<img alt="{caption}" src="{url(self._files["worst.jpg"])}">')
        return "\n".join(parts)


def is_hardly_more(found: float, by_chance: float) -> bool:
    """Whether a model's MAP@R is hardly more than that of a random order."""
    return found < min(HARDLY_TIMES * by_chance, by_chance + HARDLY_WAY * (1 - by_chance))


def find_estimate(rows: Iterable[Mapping[str, Any]], **where: str) -> Estimate:
    """The number with its interval of the first row that has these values; unknown where none has."""
    for row in rows:
        if where.items() <= row.items():
            return Estimate(*(_to_number(row.get(key)) for key in ("value", "low", "high", "p")))
    return UNKNOWN


def _to_number(value: float | None) -> float:
    return math.nan if value is None else float(value)
