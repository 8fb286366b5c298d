"""Pools are proposed from photos without an obvious foreground; a person has the last word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from small_study import described, load

from bgbias import plugins
from bgbias.backgrounds.foregrounds import look
from bgbias.backgrounds.pools import share_out
from bgbias.backgrounds.settings import Proposal
from bgbias.errors import UserError
from bgbias.files.store import ImageStore
from bgbias.images import pixels
from bgbias.masks.policy import Mask
from bgbias.nodes import backgrounds, propose
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
ROOT = Path(__file__).resolve().parents[2]
OBJECTS = [f"object{n:02d}.png" for n in range(6)]
SCENES = [f"scene{n:02d}.png" for n in range(6)]


def soft(salient: np.ndarray, confidence: float = 1.0) -> Mask:
    return Mask((salient * 255).astype(np.uint8), confidence)


def test_foreground_is_what_a_hand_counts() -> None:
    salient = np.zeros((10, 10), np.float32)
    salient[2:6, 0:5] = 1.0  # 20 pixels, 4 of the border's 36
    salient[8, 2:7] = 0.3  # 5 possible ones
    found = look(soft(salient))
    assert found.area == pytest.approx(0.20)
    assert found.sharpness == pytest.approx(20 / 25)
    assert found.border == pytest.approx(4 / 36)
    assert found.obvious


@pytest.mark.parametrize(
    "mask",
    [
        soft(np.zeros((10, 10)), 0.0),
        soft(np.ones((10, 10))),  # all of it: a wall
        soft(np.pad(np.ones((5, 5)), 5), 0.4),  # something, but nobody is sure
        soft(np.vstack([np.ones((10, 20)), np.zeros((10, 20))])),  # the upper half: a horizon
        soft(np.hstack([np.ones((1, 1)), np.zeros((1, 399))]).reshape(20, 20)),  # a speck
    ],
)
def test_no_foreground_is_seen_where_there_is_none(mask: Mask) -> None:
    assert not look(mask).obvious


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A folder with red squares on blue and with blue alone, whose foreground is what is red."""
    (tmp_path / "photos").mkdir()
    for names, level in ((OBJECTS, 255), (SCENES, 0)):
        for number, name in enumerate(names):
            picture = np.full((40, 40, 3), (0, 0, 40 * number), np.uint8)
            picture[10:30, 10:30, 0] = level
            (tmp_path / "photos" / name).write_bytes(pixels.encode_png(picture))
    made = described(tmp_path)
    made["maskers"]["net"] = {"kind": "red"}
    see_red = lambda masker, photos: [Mask(photo[..., 0].copy(), 1.0) for photo in photos]  # noqa: E731
    monkeypatch.setattr(plugins.load("maskers", "red").Red, "__call__", see_red)
    made["backgrounds"]["noise"] = {
        "propose": {"source": str(tmp_path / "photos"), "masker": "net", "licence": "CC0"}
    }
    return made


def kept(study: Study) -> pd.Series:
    propose.propose(study, "noise", "cpu")
    table: pd.Series = pd.read_csv(study.files.at("proposal", pool="noise"), index_col="name")["kept"]
    return table


def test_objects_are_rejected_and_the_rest_shared_out_unless_a_person_overrules_it(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    (tmp_path / "photos" / "broken.png").write_bytes(b"x")
    raw["backgrounds"]["noise"]["propose"] |= {"keep": OBJECTS[:1], "drop": SCENES[:1]}
    study = load(tmp_path, raw)
    found = kept(study)
    pooled = [OBJECTS[0], *SCENES[1:]]
    assert found.index[found].tolist() == pooled
    assert found.index[~found].tolist() == [*OBJECTS[1:], SCENES[0]]
    with Image.open(study.files.at("proposal_sheet", pool="noise")) as sheet:
        assert sheet.width > 1000
    backgrounds.backgrounds(study, "noise")
    pools = {r: ImageStore(study.files.at(f"{r}_pool", pool="noise")).ids for r in ("train", "val", "test")}
    assert sorted(n for names in pools.values() for n in names) == pooled
    assert [len(names) for names in pools.values()] == [2, 1, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keep": ["nobody.png"]}, r"names 'nobody\.png', which .*photos does not hold"),
        ({"masker": "ground_truth"}, "predicts nothing and cannot look for foregrounds"),
        # Before anything runs.
        ({"masker": "nte"}, r"backgrounds\.noise\.propose\.masker: 'nte' \(did you mean 'net'\?\)"),
        ({"shares": [0.5, 0.1, 0.5]}, "add up to 1"),
        ({"keep": ["a.png"], "drop": ["a.png"]}, r"'a\.png' is both kept and dropped"),
    ],
)
def test_proposals_that_cannot_be_meant_are_refused(
    tmp_path: Path, raw: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    raw["backgrounds"]["noise"]["propose"] |= change
    with pytest.raises(UserError, match=words):
        propose.propose(load(tmp_path, raw), "noise")


def test_three_photos_make_three_pools_and_two_of_one_name_or_fewer_none(
    tmp_path: Path, raw: dict[str, Any]
) -> None:
    proposal = Proposal(source="walls", masker="net", shares=(0.4, 0.1, 0.5))
    for count in (3, 4, 5, 9):
        pools = share_out([f"{n}.png" for n in range(count)], proposal)
        assert sorted(n for names in pools.values() for n in names) == [f"{n}.png" for n in range(count)]
        assert all(pools.values())
    with pytest.raises(UserError, match="too few for three pools"):
        share_out(["1.png", "2.png"], proposal)
    (tmp_path / "photos" / "more").mkdir()
    (tmp_path / "photos" / "more" / SCENES[0]).write_bytes(b"another")
    with pytest.raises(UserError, match=f"two photos called '{SCENES[0]}'"):
        propose.propose(load(tmp_path, raw), "noise")
