"""Training saliency nets in miniature: on hand-drawn masks, with what is read, judged and written; and on toys."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from miniatures import as_folder
from safetensors.torch import load_file
from scipy.stats import ttest_rel
from typer.testing import CliRunner

from bgbias import plugins
from bgbias.cli import app
from bgbias.errors import UserError
from bgbias.images import pixels
from bgbias.masks import cross_validation, quality, saliency, training
from bgbias.masks.pairs import MaskPair
from bgbias.masks.training import Recipe, TunedNet
from bgbias.masks.u2net import FULL, U2Net, u2netp
from bgbias.report import prose
from bgbias.toy.render import specimens

TOY = Path(__file__).resolve().parents[2] / "data" / "weights" / "u2netp_toy.safetensors"
FEW = dict.fromkeys(FULL, ((1, 2), 2, 4))
SMALL = Recipe(steps=2, batch_size=2, input_size=32)


@pytest.fixture(scope="module")
def pairs() -> list[MaskPair]:
    rendered = enumerate(zip(*specimens(6, 48, seed=3), strict=True))
    return [MaskPair(str(n), "even" if n % 2 else "odd", photo, mask) for n, (photo, mask) in rendered]


def drawn(folder: Path, pairs: list[MaskPair]) -> Path:
    files = {}
    for pair in pairs:
        files[f"{pair.group}/{pair.name}_image.png"] = pixels.encode_png(pair.photo)
        files[f"{pair.group}/{pair.name}_mask.png"] = pixels.encode_png(pair.mask)
    return as_folder(folder, files)


def test_photo_and_mask_are_cropped_and_mirrored_together(pairs: list[MaskPair]) -> None:
    mask = np.zeros((60, 90), np.uint8)
    mask[10:40, 5:50] = 255
    pair = MaskPair("one", "all", np.stack([mask] * 3, -1), mask)
    still = replace(SMALL, jitter=0.0, input_size=64, shown=1.0)
    shown = [training.augment(pair, still, np.random.default_rng(n)) for n in range(12)]  # white is object
    for x, truth in shown:
        assert ((x[0] > 0) == (truth > 0.5)).mean() > 0.97  # all but the resampled border
    assert len({truth.tobytes() for _, truth in shown}) > 6


@pytest.fixture(scope="module")
def small() -> U2Net:
    """With few levels and channels."""
    torch.manual_seed(0)
    return U2Net(FEW)


@pytest.fixture(scope="module")
def tuned(small: U2Net, pairs: list[MaskPair]) -> TunedNet:
    return training.fine_tune(pairs, small, SMALL)


def unseen(count: int, groups: int = 1) -> list[MaskPair]:
    """Pairs of which only names and groups are read."""
    nothing = np.zeros((1, 1), np.uint8)
    return [MaskPair(str(n), f"set{n % groups}", nothing, nothing) for n in range(count)]


def flat(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors])


def test_blends_lie_between_start_and_result(small: U2Net, tuned: TunedNet, pairs: list[MaskPair]) -> None:
    before = {name: tensor.clone() for name, tensor in small.state_dict().items()}
    again, other = (training.fine_tune(pairs, small, r) for r in (SMALL, replace(SMALL, seed=1)))
    assert all(torch.equal(tensor, before[name]) for name, tensor in small.state_dict().items())
    first, second, third = (flat(made.weights.values()) for made in (tuned, again, other))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    published, half, new = (flat(tuned.at(blend).parameters()) for blend in (0.0, 0.5, 1.0))
    assert (new - published).abs().max() > 5e-5
    # Half-way, but for the rounding to what is saved.
    torch.testing.assert_close(half, (published + new) / 2, atol=1e-3, rtol=2e-3)


def test_saved_weights_are_the_judged_net(tuned: TunedNet, pairs: list[MaskPair], tmp_path: Path) -> None:
    net, out, loaded = tuned.at(1.0), tmp_path / "mine.safetensors", U2Net(FEW)
    training.save_unfolded(net, out)
    saliency.load_weights(loaded, out, "u2netp")
    for judged, made in zip(*(cross_validation.masks(n, pairs, SMALL) for n in (net, loaded)), strict=True):
        # Batch norm's epsilon remains: five parts in a million, which a steep edge turns into a level or two.
        apart = np.abs(judged.astype(int) - made)
        assert apart.max() <= 2
        assert (apart > 1).mean() < 0.01


def test_folds_spread_every_group_and_hold_each_photo_out_once() -> None:
    pairs = unseen(30, 3)
    fold = np.array(cross_validation.folds(pairs, 5))
    for group in range(3):
        assert np.bincount(fold[group::3]).tolist() == [2] * 5
    assert sorted(np.bincount(cross_validation.folds(pairs[:7], 5)).tolist()) == [1, 1, 1, 2, 2]
    with pytest.raises(UserError, match="30 photos make 3 to 30 folds, not 31"):
        cross_validation.folds(pairs, 31)
    with pytest.raises(UserError, match="5 photos are too few for 4 folds; draw some more masks"):
        cross_validation.folds(pairs[:5], 4)


def test_a_gain_is_taken_only_where_it_is_more_than_chance_and_no_group_loses() -> None:
    noise = np.tile([0.01, -0.01], 15)
    one = np.where(np.arange(30) == 3, 0.9, 0.0)  # a single cabinet, found at last
    assert cross_validation.choice(np.stack([noise, one, -one]), (0.2, 0.5, 1.0)) == 0
    assert cross_validation.choice(np.stack([noise, noise + 0.02, noise + 0.01]), (0.2, 0.5, 1.0)) == 0.5
    assert cross_validation.choice(np.zeros((2, 30)), (0.5, 1.0)) == 0  # nothing moved
    # Told to choose all the same, it takes the best that there is.
    assert cross_validation.choice(np.stack([noise, -noise - 0.01]), (0.2, 0.5), always=True) == 0.2
    rows = pd.DataFrame({"group": ["a"] * 9 + ["b"] * 9, "before": 0.5})
    rows["change"] = np.tile([0.01, 0.02, 0.03], 6)
    better = rows.assign(after=rows["before"] + rows["change"])
    judged = cross_validation.Judgement([], [], [], better, (1.0,), rows["change"].to_numpy()[None])
    assert judged.helps
    rows["change"] *= np.where(rows["group"] == "a", 5, -1)
    rows["after"] = rows["before"] + rows["change"]
    assert cross_validation.summary(rows).set_index("group").loc["all", "clear"] > 0
    assert not replace(judged, rows=rows).helps


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
    assert np.isnan(found.loc["one", "error"])
    assert found.loc["one", "clear"] == 0
    changes = found.reset_index().to_dict("records")
    text = prose.lines("judged_masker.j2", rows="", changes=changes, shares="", helps=True, is_written=True)
    assert re.search(r"\n  one: 0\.\d{3} -> 0\.\d{3}, .\d\.\d{3} \(one photo\): no more than chance\n", text)


def test_a_fold_is_judged_by_what_never_saw_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A net stands for the names that it was trained on; each change of IoU is another number, which tells what was read."""
    Judged = tuple[frozenset[str], str]
    judged, chose = list[Judged](), list[set[Judged]]()
    count, pairs = 5, unseen(12)

    def iou(mask: Judged, truth: object) -> float:
        judged.append(mask)
        return float(len(judged)) if mask[0] else 0.0

    def choice(changes: np.ndarray, blends: tuple[float, ...]) -> float:
        chose.append({judged[int(value) - 1] for value in changes.flatten()})
        return blends[0]

    fakes: dict[str, Callable[..., Any]] = {
        "fine_tune": lambda pairs, *_: SimpleNamespace(at=lambda blend: frozenset(p.name for p in pairs)),
        "masks": lambda net, pairs, *_: [(net, p.name) for p in pairs],
        "choice": choice,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(cross_validation, name, fake)
    monkeypatch.setattr(cross_validation.quality, "iou", iou)
    judgement = cross_validation.cross_validate(pairs, frozenset(), SMALL, count)  # type: ignore[arg-type]
    fold = cross_validation.folds(pairs, count)
    names = [{p.name for p, f in zip(pairs, fold, strict=True) if f == number} for number in range(count)]
    everybody = set.union(*names)
    for own, read in zip(names, chose, strict=True):
        # The choice read the changes of all photos but its own, and no net behind it had seen its own or those it judged.
        assert {name for _, name in read} == everybody - own
        for net, name in read:
            [others] = [n for n in names if name in n]
            assert net == everybody - own - others
    assert judgement.shares.query("chosen")["blend"].tolist() == [judgement.blend]
    assert judgement.rows["fold"].tolist() == fold
    assert judgement.after == [(everybody - names[f], p.name) for p, f in zip(pairs, fold, strict=True)]


def test_a_good_masker_is_left(
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
    # What an earlier command wrote is neither deleted nor passed over in silence.
    for more, said in (
        ([], f"No weights were written; {out}, from before, is as it was"),
        (["--always"], f"weights: {out}"),
    ):
        done = CliRunner().invoke(app, [*words, *more])
        assert done.exit_code == 0, done.output
        assert "This does not help" in done.output
        assert said in done.output
        assert (out.read_bytes() == b"an earlier command's") == (not more)
    saliency.load_weights(u2netp(), out, "u2netp")
    assert pd.read_csv(tmp_path / "report" / "folds.csv")["fold"].tolist() == [0, 0, 1, 1, 2, 2]
    assert (tmp_path / "report" / "folds.png").exists()


def test_commands_that_cannot_work_are_refused(tmp_path: Path, pairs: list[MaskPair]) -> None:
    words = ["train-masker", str(drawn(tmp_path / "drawn", pairs)), "--device", "cpu", "--start", str(TOY)]
    for more, reason in (
        (["--out", "mine.pth"], r"mine\.pth is not called so"),
        (["--kind", "resnet"], "no net 'resnet' to fine-tune; there are: u2net, u2netp"),
    ):
        with pytest.raises(UserError, match=reason):
            CliRunner().invoke(app, [*words, *more], catch_exceptions=False)


# The toy dataset's net, and the weights that the project keeps.


def test_losses_by_hand() -> None:
    truth = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    sure, unsure = torch.tensor([2.0, -2.0]).view(1, 1, 1, 2), torch.zeros(1, 1, 1, 2)
    loss = training.deep_supervision([sure, unsure], truth)
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-2)) + math.log(2))
    # Probabilities 0 and 1 up to rounding. Of 2 true and 2 found pixels one is shared: 1 of 3; then all of 4 of 4.
    logits = 50 * torch.tensor([[1.0, 1, -1, -1], [1, 1, 1, 1]]).view(2, 1, 1, 4)
    truth = torch.tensor([[1.0, 0, 1, 0], [1, 1, 1, 1]]).view(2, 1, 1, 4)
    # One is added above and below, so that empty masks of empty photos are right.
    expected = ((1 - (1 + 1) / (3 + 1)) + (1 - (4 + 1) / (4 + 1))) / 2
    assert training.soft_iou(logits, truth).item() == pytest.approx(expected)


def test_steps_do_not_depend_on_how_many_photos_pass_at_once() -> None:
    photos = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(7))

    def trained(at_once: int | None) -> torch.Tensor:
        torch.manual_seed(0)
        net = U2Net(FEW).eval()
        feed = iter([(photos, torch.ones(3, 1, 32, 32))])
        training.fit(net, feed, 1, training.deep_supervision, 1e-3, "a step", at_once=at_once)
        return flat(p.grad for p in net.parameters() if p.grad is not None)

    together = trained(None)
    # bfloat16 keeps three digits.
    torch.testing.assert_close(trained(2), together, rtol=0, atol=0.03 * together.abs().max().item())


def test_same_seed_gives_same_weights_that_the_masker_loads(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.safetensors" for name in "ab"]
    scores = [training.train_on_toys(p, steps=1, size=16, input_size=32, photos=8, held_out=1) for p in paths]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert scores[0] == scores[1]
    assert all(t.dtype == torch.float16 for t in load_file(paths[0]).values())


def test_kept_weights_are_small_and_find_unseen_toys() -> None:
    module = plugins.load("maskers", "u2netp")
    assert TOY.stat().st_size <= 2_500_000
    masker = module.build(module.Params(weights=str(TOY), input_size=96, batch_size=8), "cpu")
    photos, truths = specimens(8, 64, seed=1)
    ious = [quality.iou(m.alpha, t) for m, t in zip(masker(list(photos)), truths, strict=True)]
    assert np.mean(ious) >= 0.9
