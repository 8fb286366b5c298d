"""Published networks on products that were photographed on two visits to shops: ``make docs-validity``.

``python docs/results/validity_audits.py SHARED [run ...]`` audits the networks of public_models.py, whose head says where they
come from, and resumes where it was. ``isnet`` takes the IS-Net that ``make docs-maskers`` puts into ``data/downloads``;
``one_shot``, which runs only if it is named, first says how many photos are of a shot that is there already. The plan is in
validity.md; what validity.py makes its tables of lies beside this file, sums by product.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from public_models import ISNET, WITH_OTHER_MASKS, models
from validity import COLUMNS, ROOT, RUNS, TABLES, draw, draw_shares

import bgbias
from bgbias import seeds
from bgbias.results import places
from bgbias.results.publication import note_tables

AUDITS = ROOT / "data/report/validity"
MODEL = ("photos", "model", "none", "pretrained")
EACH = 10  # photos of a product and visit
DRAWS = 2
ONE_SHOT = 0.95  # cosine, in both of these networks
SHOTS = ("EfficientNet-lite0", "MobileNetV2 (deep-sort)")


def photos(shared: Path, run: str) -> pd.DataFrame:
    """The photos of a run: ``EACH`` of a product and visit, drawn by their names; other ones for ``other_draws``."""
    folder = AUDITS / "grocery_two_visits"
    if not folder.exists():
        with zipfile.ZipFile(shared / "grocery_two_visits.zip") as archive:
            archive.extractall(AUDITS)
    listed = pd.read_csv(folder / "photos.csv")
    purpose = "other_draws" if run == "other_draws" else "validity"
    listed["number"] = [seeds.number(seeds.key(purpose, image)) for image in listed["image"]]
    drawn = listed.sort_values("number").groupby(["label", "place"]).head(EACH).sort_values("image")
    named = drawn.assign(key=purpose + " " + drawn["image"], image=[str(folder / i) for i in drawn["image"]])
    named = named[["image", "label", "place", "key"]].reset_index(drop=True)
    return named.assign(group=shots(named, shared)) if run == "one_shot" else named


def write_split(shared: Path) -> None:
    """Write the table of the grid ``two_visits``: of one visit twelve products to train, four to validate; the others to test."""
    with zipfile.ZipFile(shared / "grocery_two_visits.zip") as archive:
        listed = pd.read_csv(archive.open("grocery_two_visits/photos.csv"))
    listed = listed.assign(image="grocery_two_visits/" + listed["image"])
    order = sorted(set(listed["label"]), key=lambda label: seeds.number(seeds.key("two_visits", label)))
    split_of = dict(zip(order, ["train"] * 12 + ["val"] * 4 + ["test"] * 15, strict=True))
    listed["split"] = listed["label"].map(split_of)
    is_learned_from = (listed["split"] != "test") & (listed["place"] == "visit_train")
    listed["number"] = [seeds.number(seeds.key("two_visits", image)) for image in listed["image"]]
    asked = listed[listed["split"] == "test"].sort_values("number").groupby(["label", "place"]).head(EACH)
    table = pd.concat([listed[is_learned_from], asked]).sort_values("image").drop(columns="number")
    table.to_csv(ROOT / "data/two_visits.csv", index=False)


def shots(listed: pd.DataFrame, shared: Path) -> list[str]:
    """A name for each shot: photos of one product and visit that are alike in two networks, directly or by others."""
    alike = np.ones((len(listed), len(listed)), bool)
    for name in SHOTS:
        vectors = bgbias.embed(models(shared)[name](), listed["image"].tolist())
        alike &= vectors @ vectors.T > ONE_SHOT
    of = (listed["label"] + listed["place"]).to_numpy()
    alike &= of[:, None] == of
    shot = np.arange(len(listed))
    for _ in shot:
        shot = np.where(alike, shot, len(shot)).min(axis=1)
    print(f"{len(shot) - len(set(shot))} of {len(shot)} photos are of a shot that is there already")
    return [f"shot {number}" for number in shot]


def audited(shared: Path, runs: Sequence[str]) -> Iterator[Path]:
    """Audit the networks in each run, and write its sums."""
    networks = {name: load() for name, load in models(shared).items()}
    for run in runs:
        asked = {n: m for n, m in networks.items() if run == "main" or n in WITH_OTHER_MASKS}
        compared = bgbias.audit(
            photos(shared, run),
            asked,
            out=AUDITS / run,
            name=f"two visits, {run}",
            sample=None,
            backgrounds=shared / "backgrounds_test.zip",
            draws=DRAWS,
            attribution=0,
            masker="isnet" if run == "isnet" else "u2netp",
            mask_weights=ISNET if run == "isnet" else shared / "weights/u2netp.safetensors",
        )
        if missing := asked.keys() - compared.audits.keys():
            raise SystemExit(f"{', '.join(missing)} failed; run the same command again.")
        file = TABLES / f"{run}.csv"
        (ROOT / file).parent.mkdir(exist_ok=True)
        pd.concat([sums(name, audit) for name, audit in compared.audits.items()]).to_csv(
            ROOT / file, index=False, float_format="%.6f"
        )
        yield file
        if run == "main":
            write_shares(compared)
            yield TABLES / "shares.csv"


def write_shares(compared: bgbias.ComparedAudits) -> None:
    """Shares of variance, and what grey backgrounds in query and gallery win over other ones, 0..1: a row a network."""
    lines = []
    for name, audit in compared.audits.items():
        levels = {
            condition: audit.estimate(
                "levels", setting="symmetric", condition=condition, metric="map_at_r"
            ).value
            for condition in ("only_fg", "random_background")
        }
        grey = levels["only_fg"] - levels["random_background"]
        lines.append({"network": name, **audit.numbers["shares_of_variance"], "grey": grey})
    pd.DataFrame(lines).to_csv(ROOT / TABLES / "shares.csv", index=False, float_format="%.6f")


def sums(name: str, audit: bgbias.Audit) -> pd.DataFrame:
    """A row a product and level: MAP@R of its queries in sum, by how much the sum of all others would change without it, and how
    many queries there are.
    """
    values = places.values_for_views(audit.queries, MODEL, COLUMNS)
    frame = pd.concat(
        [
            pd.DataFrame(
                {
                    "product": values.classes,
                    "level": level,
                    "map_at_r": of[0],
                    "of_others": values.of_others[level][0],
                }
            )
            for level, of in values.columns.items()
        ]
    )
    known = ~np.isnan(np.concatenate(list(values.columns.values()))).any(axis=0)
    frame = frame[np.tile(known, len(values.columns))]
    of_levels = frame.groupby(["product", "level"]).agg(
        map_at_r=("map_at_r", "sum"), of_others=("of_others", "sum"), queries=("map_at_r", "size")
    )
    return of_levels.reset_index().assign(network=name)[["network", *of_levels.reset_index().columns]]


def main(shared: Path, runs: Sequence[str]) -> None:
    """Split, audit, note how that was done, and draw; ``picture`` draws alone."""
    if list(runs) != ["picture"]:
        write_split(shared)
        note_tables("validity", "make docs-validity", audited(shared, runs or list(RUNS)))
    draw()
    draw_shares()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
