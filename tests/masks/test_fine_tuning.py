"""Fine-tuning a saliency net on hand-drawn masks, in miniature: what it reads, what it keeps, what it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from bgbias.cli import app
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks import cross_validation, fine_tuning, saliency
from bgbias.masks import pairs as mask_pairs
from bgbias.masks.fine_tuning import Recipe
from bgbias.masks.pairs import MaskPair
from bgbias.masks.u2net import U2Net, u2netp
from bgbias.toy.render import specimens

TOY = Path(__file__).resolve().parents[2] / "data" / "weights" / "u2netp_toy.safetensors"
SMALL = Recipe(steps=3, batch_size=2, input_size=32)


@pytest.fixture(scope="module")
def start() -> U2Net:
    net = u2netp()
    saliency.load_weights(net, TOY, "u2netp")
    return net


@pytest.fixture(scope="module")
def pairs() -> list[MaskPair]:
    photos, masks = specimens(6, 48, seed=3)
    return [
        MaskPair(str(n), "even" if n % 2 else "odd", p, m)
        for n, (p, m) in enumerate(zip(photos, masks, strict=True))
    ]


def drawn(folder: Path, pairs: list[MaskPair]) -> Path:
    for pair in pairs:
        place = folder / pair.group
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{pair.name}_image.png").write_bytes(pixels.encode_png(pair.photo))
        (place / f"{pair.name}_mask.png").write_bytes(pixels.encode_png(pair.mask))
    return folder


def test_pairs_are_read_from_a_folder_and_from_a_table_alike(tmp_path: Path, pairs: list[MaskPair]) -> None:
    folder = drawn(tmp_path / "drawn", pairs)
    (folder / "odd" / "0_rembg.png").write_bytes(pixels.encode_png(pairs[0].mask))  # neither photo nor mask
    rows = [(f"{p.group}/{p.name}_image.png", f"{p.group}/{p.name}_mask.png", p.group) for p in pairs]
    pd.DataFrame(rows, columns=["image", "mask", "group"]).to_csv(folder / "pairs.csv", index=False)
    for place in (folder, folder / "pairs.csv"):
        found = mask_pairs.read_pairs(place)
        assert [p.group for p in found] == ["even"] * 3 + ["odd"] * 3
        for pair, expected in zip(found, pairs[1::2] + pairs[::2], strict=True):
            np.testing.assert_array_equal(pair.photo, expected.photo)
            np.testing.assert_array_equal(pair.mask, expected.mask)


def test_pairs_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    white = pixels.encode_png(np.full((4, 6), 255, np.uint8))
    (tmp_path / "7.jpg").write_bytes(white)

    def refusal(place: Path = tmp_path) -> str:
        with pytest.raises(UserError) as caught:
            mask_pairs.read_pairs(place)
        return str(caught.value)

    assert "7.jpg has no mask; draw 7_mask.png" in refusal()
    (tmp_path / "7_mask.png").write_bytes(pixels.encode_png(np.full((4, 5), 255, np.uint8)))
    assert "7_mask.png is 5x4 pixels, its photo 7.jpg 6x4" in refusal()
    (tmp_path / "7_mask.png").write_bytes(pixels.encode_png(np.zeros((4, 6), np.uint8)))
    assert "7_mask.png shows no object" in refusal()
    (tmp_path / "7_mask.png").write_bytes(white)
    (tmp_path / "8_mask.png").write_bytes(white)
    assert "8_mask.png has no photo" in refusal()
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "empty holds no photo with a mask; name them like this" in refusal(empty)
    assert "There is no folder or table" in refusal(tmp_path / "absent")
    table = tmp_path / "pairs.csv"
    table.write_text("image,truth\n7.jpg,7_mask.png\n")
    assert "no column 'mask'" in refusal(table)
    table.write_text("image,mask\n7.jpg,7_mask.png\n9.jpg,7_mask.png\n")
    assert "line 3: no file '9.jpg' (image)" in refusal(table)


def test_photo_and_mask_are_cropped_and_mirrored_together(pairs: list[MaskPair]) -> None:
    mask = np.zeros((60, 90), np.uint8)
    mask[10:40, 5:50] = 255
    pair = MaskPair("one", "all", np.stack([mask] * 3, -1), mask)
    still = replace(SMALL, jitter=0.0, input_size=64)
    shown = [
        fine_tuning.augmented(pair, still, np.random.default_rng(n)) for n in range(12)
    ]  # white is object
    for x, truth in shown:
        assert ((x[0] > 0) == (truth > 0.5)).mean() > 0.97  # all but the resampled border
    assert len({truth.tobytes() for _, truth in shown}) > 6


def test_every_photo_comes_before_any_comes_again(pairs: list[MaskPair]) -> None:
    # Each photo is known by its only grey level.
    flat = [
        MaskPair(str(n), "all", np.full((9, 9, 3), 255, np.uint8), np.full((9, 9), 128 + n, np.uint8))
        for n in range(6)
    ]
    recipe = replace(SMALL, steps=6, batch_size=2)
    seen = [round(float(t.max()) * 255) for _, truth in fine_tuning.batches(flat, recipe) for t in truth]
    assert sorted(seen[:6]) == sorted(seen[6:]) == [128, 129, 130, 131, 132, 133]


def test_start_is_left_alone_and_blend_says_how_far_the_result_is_from_it(
    start: U2Net, pairs: list[MaskPair]
) -> None:
    before = {n: t.clone() for n, t in start.state_dict().items()}
    nets = [fine_tuning.fine_tune(pairs, start, replace(SMALL, blend=b)) for b in (0.0, 0.5, 1.0)]
    assert all(torch.equal(t, before[n]) for n, t in start.state_dict().items())
    weights = [torch.cat([p.flatten() for p in net.parameters()]) for net in nets]
    assert (weights[2] - weights[0]).abs().max() > 1e-4
    # Half-way, but for the rounding to what is saved.
    torch.testing.assert_close(weights[1], (weights[0] + weights[2]) / 2, atol=1e-3, rtol=2e-3)


def test_saved_weights_are_the_net_that_was_judged(
    start: U2Net, pairs: list[MaskPair], tmp_path: Path
) -> None:
    net = fine_tuning.fine_tune(pairs, start, replace(SMALL, blend=1.0))
    out = tmp_path / "mine.safetensors"
    fine_tuning.save_unfolded(net, out)
    loaded = u2netp()
    saliency.load_weights(loaded, out, "u2netp")
    for judged, made in zip(*(cross_validation.masks(n, pairs, SMALL) for n in (net, loaded)), strict=True):
        # Batch norm's epsilon remains: five parts in a million.
        assert np.abs(judged.astype(int) - made).max() <= 1


def test_same_seed_gives_the_same_weights(start: U2Net, pairs: list[MaskPair]) -> None:
    first, second, other = (
        torch.cat([p.flatten() for p in fine_tuning.fine_tune(pairs, start, r).parameters()])
        for r in (SMALL, SMALL, replace(SMALL, seed=1))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_folds_spread_every_group_and_hold_each_photo_out_once() -> None:
    nothing = np.zeros((1, 1), np.uint8)
    pairs = [MaskPair(str(n), f"set{n % 3}", nothing, nothing) for n in range(30)]
    fold = cross_validation.folds(pairs, 5)
    for group in ("set0", "set1", "set2"):
        inside = [f for f, p in zip(fold, pairs, strict=True) if p.group == group]
        assert sorted(inside) == sorted(list(range(5)) * 2)
    uneven = cross_validation.folds(pairs[:7], 5)
    assert sorted(np.bincount(uneven).tolist()) == [1, 1, 1, 2, 2]
    with pytest.raises(UserError, match="30 photos make 2 to 30 folds, not 31"):
        cross_validation.folds(pairs, 31)


def test_no_fold_is_trained_on_what_it_is_judged_on(
    start: U2Net, pairs: list[MaskPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[set[str]] = []

    def untouched(pairs: list[MaskPair], start: U2Net, recipe: Recipe, device: str) -> U2Net:
        trained.append({p.name for p in pairs})
        return start

    monkeypatch.setattr(cross_validation, "fine_tune", untouched)
    verdicts = cross_validation.cross_validate(pairs, start, SMALL, 3)
    assert [v.pair.name for v in verdicts] == [p.name for p in pairs]
    for v in verdicts:
        assert v.pair.name not in trained[v.fold]
        assert len(trained[v.fold]) == 4
        assert v.ious[0] == v.ious[1]


def test_commands_train_and_judge(tmp_path: Path, pairs: list[MaskPair]) -> None:
    folder = drawn(tmp_path / "drawn", pairs[:4])
    words = [
        "train-masker",
        str(folder),
        "--start",
        str(TOY),
        "--steps",
        "1",
        "--input-size",
        "32",
        "--device",
        "cpu",
    ]
    out = tmp_path / "weights" / "mine.safetensors"
    done = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"weights: {out}" in done.output
    saliency.load_weights(u2netp(), out, "u2netp")
    done = CliRunner().invoke(app, [*words, "--folds", "2", "--report", str(tmp_path / "report")])
    assert done.exit_code == 0, done.output
    table = pd.read_csv(tmp_path / "report" / "folds.csv")
    assert (len(table), sorted(table["fold"])) == (4, [0, 0, 1, 1])
    assert (tmp_path / "report" / "folds.png").exists()
    with pytest.raises(UserError, match=r"mine\.pth is not called so"):
        CliRunner().invoke(app, [*words, "--out", "mine.pth"], catch_exceptions=False)
    with pytest.raises(UserError, match="no net 'resnet' to fine-tune; there are: u2net, u2netp"):
        CliRunner().invoke(app, [*words, "--kind", "resnet"], catch_exceptions=False)
