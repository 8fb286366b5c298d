"""What a grid's cells are brought together to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from small_study import data_nodes, described, load, run

from bgbias import seeds
from bgbias.attribution import score, smoothgrad
from bgbias.engine import graph
from bgbias.nodes import collect
from bgbias.nodes._models import fresh_model
from bgbias.report.tables import attribution
from bgbias.results.rows import together
from bgbias.study import plan
from bgbias.study.album import Album
from bgbias.study.cell import Cell


@pytest.mark.parametrize("seeds", [(0, 1, 2), (0, "1.fold2", 2)])
def test_tables_are_brought_together_piece_by_piece_as_pandas_would_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: tuple[int | str, ...]
) -> None:
    """Byte for byte, also where pieces end within a cell, some seeds are words and one table has a column more."""
    monkeypatch.setattr(collect, "ROWS_A_GROUP", 1000)
    files = []
    for number, (seed, rows) in enumerate(zip(seeds, (700, 1300, 2000), strict=True)):
        of_some = {"place": 1.0} if number == 1 else {}
        values = np.random.default_rng(number).random(rows)
        names = [f"birds/{n:03d}.jpg" for n in range(rows)]
        made = pd.DataFrame(
            {"dataset": "birds", "seed": seed, "image_id": names, "map_at_r": values} | of_some
        )
        made.loc[::7, "map_at_r"] = np.nan
        files.append(tmp_path / f"{number}.parquet")
        pd.concat([made[:300], made[300:]], ignore_index=True).to_parquet(files[-1], index=False)
    collect.write_together(files, tmp_path / "pieces.parquet")
    at_once = together([pd.read_parquet(file) for file in files])
    at_once.to_parquet(tmp_path / "once.parquet", index=False, row_group_size=1000)
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "once.parquet").read_bytes()


def test_backbones_as_they_come_are_asked_where_they_look_if_a_grid_says_so(tmp_path: Path) -> None:
    raw = described(tmp_path)
    block = raw["grids"]["small"]["cells"][0]
    raw["grids"]["small"]["cells"] = [
        block | {"losses": ["contrastive"], "methods": ["plain"], "pretrained": True}
    ]
    before = load(tmp_path, raw)
    raw["attribution"]["pretrained"] = True
    study = load(tmp_path, raw)
    trained = Cell("squares", "pixels", "contrastive", "plain", 0)
    bare = Cell("squares", "pixels", "none", "pretrained", 0)
    for one, models in ((before, {trained}), (study, {trained, bare})):
        asked = [made.node.cell for made in collect.reads(one).values() if made.output == "attribution"]
        assert set(asked) == models
    # Scores of trained models are what they were.
    assert graph.digest(before, "attribute", cell=trained) == graph.digest(study, "attribute", cell=trained)

    data_nodes(study)
    run(study, trained, "train")
    for cell in plan.cells(study):
        run(study, cell, "embed", "score")
    for cell in (trained, bare):
        run(study, cell, "attribute")
    collect.collect(study)
    scores = pd.read_parquet(study.files.at("all_attribution"))
    found = attribution.table(scores, cells=plan.attributed_models(study)).set_index("method")
    assert set(found.index) == {"plain", "pretrained"}
    # They are asked by the features that retrieval takes, and not by a random layer on them.
    model = fresh_model(study, bare).eval()
    album = Album(study, "squares", model.resize, model.input_size)
    shown = album.table("test").keyed("attribution", study.attribution.images)
    photos = album.evaluation(shown, {"masks"}, "test")
    scores = []
    for name, key in zip(shown.ids, shown.keys, strict=True):
        x = model.preprocess(torch.from_numpy(photos.clean(name).copy()).permute(2, 0, 1)[None])[0]
        black = model.pooled(model.preprocess(torch.zeros(1, 3, *x.shape[1:])))[0].detach()
        noise = [seeds.key(*key)]
        maps = smoothgrad.gradient_maps(model.pooled, x[None], noise, black, "cosine", study.attribution)
        scores.append(score.score_photo(photos, name, "ref", maps.ref[0])[0]["score"])
    assert found.at["pretrained", "ref"] == pytest.approx(np.nanmean(scores), abs=1e-5)
