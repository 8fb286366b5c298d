"""Fine-tuning a saliency net on hand-drawn masks, in miniature: what it reads, what it keeps, what it writes."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel
from typer.testing import CliRunner

from bgbias.cli import app
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks import cross_validation, saliency, training
from bgbias.masks.pairs import MaskPair
from bgbias.masks.training import Recipe, TunedNet
from bgbias.masks.u2net import FULL, U2Net, u2netp
from bgbias.report import prose
from bgbias.toy.render import specimens

TOY = Path(__file__).resolve().parents[2] / "data" / "weights" / "u2netp_toy.safetensors"
FEW = dict.fromkeys(FULL, ((1, 2), 2, 4))
SMALL = Recipe(steps=2, batch_size=2, input_size=32)
# Enough to turn the last layer round.
QUICK = Recipe(steps=2, batch_size=1, input_size=48, shown=1.0, lr=1e-3, averaged=0.0, blends=(1.0,))


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


def test_photo_and_mask_are_cropped_and_mirrored_together(pairs: list[MaskPair]) -> None:
    mask = np.zeros((60, 90), np.uint8)
    mask[10:40, 5:50] = 255
    pair = MaskPair("one", "all", np.stack([mask] * 3, -1), mask)
    still = replace(SMALL, jitter=0.0, input_size=64, shown=1.0)
    shown = [training.augment(pair, still, np.random.default_rng(n)) for n in range(12)]  # white is object
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
    seen = [round(float(t.max()) * 255) for _, truth in training.batches(flat, recipe) for t in truth]
    assert sorted(seen[:6]) == sorted(seen[6:]) == [128, 129, 130, 131, 132, 133]


@pytest.fixture(scope="module")
def small() -> U2Net:
    """With few levels and channels."""
    torch.manual_seed(0)
    return U2Net(FEW)


@pytest.fixture(scope="module")
def tuned(small: U2Net, pairs: list[MaskPair]) -> TunedNet:
    return training.fine_tune(pairs, small, SMALL)


def flat(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def test_blend_says_how_far_the_result_is_from_a_start_that_is_left_alone(
    small: U2Net, pairs: list[MaskPair]
) -> None:
    before = {name: tensor.clone() for name, tensor in small.state_dict().items()}
    tuned = training.fine_tune(pairs, small, SMALL)
    assert all(torch.equal(tensor, before[name]) for name, tensor in small.state_dict().items())
    published, half, new = (flat(tuned.at(blend).parameters()) for blend in (0.0, 0.5, 1.0))
    assert (new - published).abs().max() > 5e-5
    # Half-way, but for the rounding to what is saved.
    torch.testing.assert_close(half, (published + new) / 2, atol=1e-3, rtol=2e-3)


def test_saved_weights_are_the_net_that_was_judged(
    tuned: TunedNet, pairs: list[MaskPair], tmp_path: Path
) -> None:
    net, out, loaded = tuned.at(1.0), tmp_path / "mine.safetensors", U2Net(FEW)
    training.save_unfolded(net, out)
    saliency.load_weights(loaded, out, "u2netp")
    for judged, made in zip(*(cross_validation.masks(n, pairs, SMALL) for n in (net, loaded)), strict=True):
        # Batch norm's epsilon remains: five parts in a million, which a steep edge turns into a level or two.
        apart = np.abs(judged.astype(int) - made)
        assert apart.max() <= 2
        assert (apart > 1).mean() < 0.01


def test_same_seed_gives_the_same_weights(small: U2Net, tuned: TunedNet, pairs: list[MaskPair]) -> None:
    again, other = (training.fine_tune(pairs, small, r) for r in (SMALL, replace(SMALL, seed=1)))
    first, second, third = (flat(made.weights.values()) for made in (tuned, again, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


def test_folds_spread_every_group_and_hold_each_photo_out_once() -> None:
    nothing = np.zeros((1, 1), np.uint8)
    pairs = [MaskPair(str(n), f"set{n % 3}", nothing, nothing) for n in range(30)]
    fold = np.array(cross_validation.folds(pairs, 5))
    for group in range(3):
        assert np.bincount(fold[group::3]).tolist() == [2] * 5
    assert sorted(np.bincount(cross_validation.folds(pairs[:7], 5)).tolist()) == [1, 1, 1, 2, 2]
    with pytest.raises(UserError, match="30 photos make 3 to 30 folds, not 31"):
        cross_validation.folds(pairs, 31)
    with pytest.raises(UserError, match="5 photos are too few for 4 folds; draw some more masks"):
        cross_validation.folds(pairs[:5], 4)


def test_a_gain_is_taken_only_where_it_is_more_than_chance() -> None:
    noise = np.tile([0.01, -0.01], 15)
    one = np.where(np.arange(30) == 3, 0.9, 0.0)  # a single cabinet, found at last
    assert cross_validation.choice(np.stack([noise, one, -one]), (0.2, 0.5, 1.0)) == 0
    assert cross_validation.choice(np.stack([noise, noise + 0.02, noise + 0.01]), (0.2, 0.5, 1.0)) == 0.5
    assert cross_validation.choice(np.zeros((2, 30)), (0.5, 1.0)) == 0  # nothing moved
    # Told to choose all the same, it takes the best that there is.
    assert cross_validation.choice(np.stack([noise, -noise - 0.01]), (0.2, 0.5), always=True) == 0.2


def test_a_gain_of_all_does_not_outweigh_a_loss_of_a_group() -> None:
    rows = pd.DataFrame({"group": ["a"] * 9 + ["b"] * 9, "before": 0.5})
    rows["change"] = np.tile([0.01, 0.02, 0.03], 6)
    assert cross_validation.gains(rows.assign(after=rows["before"] + rows["change"]))
    rows["change"] *= np.where(rows["group"] == "a", 5, -1)
    rows["after"] = rows["before"] + rows["change"]
    assert cross_validation.summary(rows).set_index("group").loc["all", "clear"] > 0
    assert not cross_validation.gains(rows)


def test_gains_are_students_of_the_paired_changes_group_by_group() -> None:
    draw = np.random.default_rng(0)
    before, change = draw.uniform(0.5, 0.8, 12), draw.normal(0.02, 0.05, 12)
    group = ["birds"] * 8 + ["cars"] * 3 + ["one"]
    rows = pd.DataFrame({"group": group, "before": before, "after": before + change, "change": change})
    found = cross_validation.summary(rows).set_index("group")
    assert found["photos"].to_dict() == {"birds": 8, "cars": 3, "one": 1, "all": 12}
    for name, part in (("birds", slice(0, 8)), ("cars", slice(8, 11)), ("all", slice(12))):
        test = ttest_rel(rows["after"][part], rows["before"][part])
        assert found.loc[name, "error"] == pytest.approx(found.loc[name, "change"] / test.statistic)
        for moved in np.linspace(-0.1, 0.1, 41):
            own = change[part] + moved
            p = ttest_rel(before[part] + own, before[part]).pvalue
            assert cross_validation.clear(own) == np.sign(own.mean()) * (p < 0.05)
    assert found.loc["one", ["error", "clear"]].isna().tolist() == [True, False]
    assert found.loc["one", "clear"] == 0
    changes = found.reset_index().to_dict("records")
    text = prose.lines("judged_masker.j2", rows="", changes=changes, shares="", helps=True, is_written=True)
    assert re.search(r"\n  one: 0\.\d{3} -> 0\.\d{3}, .\d\.\d{3} \(one photo\): no more than chance\n", text)


def test_a_fold_is_judged_by_nets_and_by_a_choice_that_never_saw_it(
    start: U2Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, nothing = 5, np.zeros((1, 1), np.uint8)
    pairs = [MaskPair(str(n), "all", nothing, nothing) for n in range(12)]
    fold = cross_validation.folds(pairs, count)
    trained: dict[int, set[str]] = {}  # by the net
    # By the change of IoU: each is another number, so that it tells what was read.
    judged: dict[float, tuple[int, str]] = {}
    chose: list[set[tuple[int, str]]] = []

    class Net:
        def at(self, blend: float) -> int:
            return id(self)

    def fine_tune(pairs: list[MaskPair], *_: object) -> Net:
        net = Net()
        kept.append(net)
        trained[id(net)] = {p.name for p in pairs}
        return net

    def masks(net: U2Net | int, pairs: list[MaskPair], *_: object) -> list[tuple[int, str]]:
        return [(0 if net is start else int(net), p.name) for p in pairs]  # type: ignore[call-overload]

    def iou(mask: tuple[int, str], truth: object) -> float:
        if mask[0]:
            value = float(len(judged) + 1)
            judged[value] = mask
            return value
        return 0.0

    def choice(changes: np.ndarray, blends: tuple[float, ...]) -> float:
        chose.append({judged[value] for value in changes.flatten()})
        return blends[0]

    kept: list[Net] = []
    for name, fake in (("fine_tune", fine_tune), ("masks", masks), ("choice", choice)):
        monkeypatch.setattr(cross_validation, name, fake)
    monkeypatch.setattr(cross_validation.quality, "iou", iou)
    judgement = cross_validation.cross_validate(pairs, start, SMALL, count)
    names = [{p.name for p, f in zip(pairs, fold, strict=True) if f == number} for number in range(count)]
    everybody = set.union(*names)
    for own, read in zip(names, chose, strict=True):
        # The choice read the changes of all photos but its own, and no net behind it had seen its own or those it judged.
        assert {name for _, name in read} == everybody - own
        for net, name in read:
            [others] = [n for n in names if name in n]
            assert trained[net] == everybody - own - others
    assert judgement.rows["fold"].tolist() == fold
    for pair, number, (net, name) in zip(pairs, fold, judgement.after, strict=True):
        assert (name, trained[int(net)]) == (pair.name, everybody - names[number])


def test_a_bad_masker_gains(
    start: U2Net, pairs: list[MaskPair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A net that takes the background for the object, though hardly."""
    spoilt = copy.deepcopy(start)
    with torch.no_grad():
        spoilt.outconv.weight.mul_(-0.001)
    of_all = [replace(p, group="all") for p in pairs]
    tuned = training.fine_tune(of_all, spoilt, QUICK)
    # One training stands for six: whose photos each one sees is held above.
    monkeypatch.setattr(cross_validation, "fine_tune", lambda *_: tuned)
    judged = cross_validation.cross_validate(of_all, spoilt, QUICK, 3)
    cross_validation.write(judged, tmp_path)
    assert judged.helps
    assert judged.blend in QUICK.blends
    assert pd.read_csv(tmp_path / "folds.csv")["change"].mean() > 0.05
    shares = pd.read_csv(tmp_path / "shares.csv")
    assert shares["blend"][shares["chosen"]].tolist() == [judged.blend]


def test_commands_leave_a_good_masker_alone(
    tmp_path: Path, pairs: list[MaskPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    masks, names = [pair.mask for pair in pairs], [pair.name for pair in pairs]
    rows = pd.DataFrame({"photo": names, "group": "all", "fold": [0, 0, 1, 1, 2, 2], "blend": 0.0})
    rows = rows.assign(before=0.9, after=0.9, change=0.0)
    judged = cross_validation.Judgement(pairs, masks, masks, rows, (1.0,), np.zeros((1, 6)))
    monkeypatch.setattr(cross_validation, "cross_validate", lambda *_: judged)
    sizes = ["--steps", "1", "--input-size", "32", "--folds", "3", "--report", str(tmp_path / "report")]
    folder, out = drawn(tmp_path / "drawn", pairs), tmp_path / "mine.safetensors"
    words = ["train-masker", str(folder), "--start", str(TOY), "--device", "cpu", *sizes, "--out", str(out)]
    out.write_bytes(b"an earlier command's")
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "This does not help" in done.output
    # What an earlier command wrote is neither deleted nor passed over in silence.
    assert f"No weights were written; {out}, from before, is as it was" in done.output
    assert out.read_bytes() == b"an earlier command's"
    assert pd.read_csv(tmp_path / "report" / "folds.csv")["fold"].tolist() == [0, 0, 1, 1, 2, 2]
    assert (tmp_path / "report" / "folds.png").exists()
    done = CliRunner().invoke(app, [*words, "--always"])
    assert done.exit_code == 0, done.output
    assert "This does not help" in done.output
    assert f"weights: {out}" in done.output
    saliency.load_weights(u2netp(), out, "u2netp")


def test_commands_that_cannot_work_are_refused(tmp_path: Path, pairs: list[MaskPair]) -> None:
    words = ["train-masker", str(drawn(tmp_path / "drawn", pairs)), "--device", "cpu", "--start", str(TOY)]
    for more, reason in (
        (["--out", "mine.pth"], r"mine\.pth is not called so"),
        (["--kind", "resnet"], "no net 'resnet' to fine-tune; there are: u2net, u2netp"),
        (["--folds", "7"], "6 photos make 3 to 6 folds, not 7"),
    ):
        with pytest.raises(UserError, match=reason):
            CliRunner().invoke(app, [*words, *more], catch_exceptions=False)
