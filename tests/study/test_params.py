"""params.yaml is strict at every level, and what it refuses it explains."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import ROOT
from small_study import load, put

from bgbias.errors import UserError
from bgbias.files import places
from bgbias.study import params, plan

pytestmark = pytest.mark.usefixtures("small_plugins")


BLOCK = "grids.small.cells.0"
WRONG = [
    ("train.patience", 0, "must be a whole number of 1 or more (found: 0)"),
    ("train.lr", float("nan"), "must be a number above 0 (found: NaN)"),
    ("train.lr", True, "true and false are no numbers (found: true)"),
    ("train.optimizer", "lars", 'must be one of rmsprop, adam, adamw, sgd (found: "lars")'),
    ("train.embedder_lr", "x", 'must be a number above 0, or null (found: "x")'),
    ("train.crop_scale", [0.1], "must be a list of 2 values, each a number above 0 and of 1 or less (found: [0.1])"),
    ("train.crop_scale", [0.9, 0.1], "the smaller number comes first"),
    ("evaluation.conditions", ["clean"], "drops are measured from clean to random_background"),
    ("datasets", {7: {}}, "a name must be text; write it in quotes"),
    ("datasets.squares.kind", "", "it must not be empty"),
    ("datasets.squares.losses", "nobody", "no loss has a column 'nobody'; there are: default."),
    ("losses.arcface.default", {"margin": 20, "lr": 0.1}, "is missing; it must be a number above 0"),
    ("losses.triplet.square", {"margin": 0.1}, "column of no dataset. Did you mean 'squares'?"),
    ("backgrounds.noise.train.toy_scenes", 5, "exactly one of source"),
    ("backgrounds.noise.train.size", 32, "`size` is that of drawn pictures"),
    ("grids.small.cells", [], "must be a list of one or more values, each a mapping of keys (found: [])"),
    (f"{BLOCK}.seeds", [], "no seeds: nothing would be trained"),
    (f"{BLOCK}.methods", ["pretrained"], "write `pretrained: true` instead"),
]  # fmt: skip


def test_an_unknown_key_is_refused_at_every_level(tmp_path: Path, raw: dict[str, Any]) -> None:
    for key, suggestion in (
        ("trian", "Did you mean 'train'?"),
        ("backbones.pixels.weights", "Known keys: none."),
        (f"{BLOCK}.metods", "Did you mean 'methods'?"),
        ("grids.small.evaluation.zzz", "Known keys: conditions, draws, batch_size, precision."),
    ):
        with pytest.raises(UserError) as told:
            load(tmp_path, put(raw, key, 1))
        assert str(told.value) == f"{tmp_path / 'params.yaml'}: unknown key '{key}'. {suggestion}"


@pytest.mark.parametrize(("key", "value", "words"), WRONG)
def test_a_wrong_value_is_refused_in_plain_words(
    tmp_path: Path, raw: dict[str, Any], key: str, value: Any, words: str
) -> None:
    path = tmp_path / "other study.yaml"
    path.write_text(yaml.safe_dump({**raw, key: value} if "." not in key else put(raw, key, value)))
    with pytest.raises(UserError) as told:
        params.load(path)
    text = str(told.value)
    assert text.startswith(f"{path}: '")
    assert words in text
    assert text.endswith(("?", ".", ")"))
    # A rule about a whole mapping names the mapping, one about an item of a list the item.
    named = text.split("'")[1]
    assert named.startswith(key) or key.startswith(named)
    assert not re.search("Value error|valid|Input|Field required|should|pydantic", text), text


def test_file_that_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    with pytest.raises(UserError, match=rf"{path} is missing; .*--params"):
        params.load(path)
    for text, words in (
        ("grid: small\ngrid: other\n", "key 'grid' is given twice"),
        ("grid: [small\n", "not valid YAML"),
        ("", "must be a mapping"),
        ("grid: für\n", "not valid YAML: 'utf-8' codec"),
    ):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(UserError, match=rf"(?s){path}.*{words}"):
            params.load(path)


def test_messages_and_commands_name_the_file_of_the_study(tmp_path: Path, raw: dict[str, Any]) -> None:
    path = tmp_path / "my study.yaml"
    path.write_text(yaml.safe_dump(raw))
    study = params.load(path)
    with pytest.raises(UserError) as told:
        plan.pools(study, "nothing")
    assert str(told.value).startswith(f"{path} has no backgrounds 'nothing'")
    text = (
        "params.yaml, data/params.yaml: `snakemake --cores all all_masks`,"
        " `snakemake --cores all --config grid=small`, `python -m bgbias fetch squares`"
    )
    named = (
        f"{path}, data/params.yaml: `snakemake --config params='{path}' --cores all all_masks`,"
        f" `snakemake --cores all --config params='{path}' grid=small`,"
        f" `python -m bgbias fetch --params '{path}' squares`"
    )
    # A message that is told again, within another one, stays what it is.
    assert str(UserError(text)) == str(UserError(str(UserError(text)))) == named


def test_a_grid_changes_single_keys_and_is_always_checked(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["grids"]["long"] = {"cells": raw["grids"]["small"]["cells"], "train": {"max_epochs": 9}}
    short, long = load(tmp_path, raw), load(tmp_path, raw, "long")
    assert (short.grid, short.train.max_epochs) == ("small", 4)
    assert (long.grid, long.train.max_epochs) == ("long", 9)
    assert long.train.model_copy(update={"max_epochs": 4}) == short.train
    assert long.files.at("results") != short.files.at("results")
    with pytest.raises(UserError, match=r"no grid 'smal'; there are: small, long\. Did you mean 'small'"):
        load(tmp_path, raw, "smal")
    raw["grids"]["long"]["train"] = {"epochs": 3}
    with pytest.raises(UserError, match=r"key 'grids\.long\.train\.epochs'\. Did you mean 'max_epochs'"):
        load(tmp_path, raw)


# Files in grids/ beside params.yaml.


@pytest.fixture
def beside(tmp_path: Path, raw: dict[str, Any]) -> Path:
    """A file in grids/ that holds one grid more, with a method that it alone uses."""
    path = tmp_path / "grids/later.yaml"
    path.parent.mkdir()
    block = raw["grids"]["small"]["cells"][0] | {"methods": ["twice"]}
    methods = {"twice": {"kind": "attr_loss", "weight": 2.0}}
    path.write_text(yaml.safe_dump({"methods": methods, "grids": {"later": {"cells": [block]}}}))
    return path


def test_grids_beside_the_file_are_as_if_in_it(tmp_path: Path, raw: dict[str, Any], beside: Path) -> None:
    apart = load(tmp_path, raw, "later")
    whole = params.read(tmp_path / "params.yaml")
    twice = {"grids": {"later": raw["grids"]["small"]}}
    words = rf"'grids\.later' stands in {tmp_path}/params\.yaml and in {beside}"
    with pytest.raises(UserError, match=words):
        load(tmp_path, raw | twice)
    # A study may have all its grids there.
    assert load(tmp_path, raw | {"grids": None}, "later").grid == "later"
    beside.unlink()
    assert load(tmp_path, whole, "later") == apart
    with pytest.raises(UserError, match=r"no grid 'later'; there are: none, nor is there a file in .*grids"):
        load(tmp_path, raw | {"grids": {}}, "later")


def test_a_mistake_beside_the_file_names_its_own(tmp_path: Path, raw: dict[str, Any], beside: Path) -> None:
    later = yaml.safe_load(beside.read_text())
    for key, value, words in (
        ("train", {"lr": 1}, "unknown key 'train'. A file in grids/ may have: grids, datasets, "),
        ("grids.in the way", {}, "'grids.in the way' cannot be a name"),
        ("grids.later.train", {"lr": "x"}, "'grids.later.train.lr' must be a number above 0"),
    ):
        beside.write_text(yaml.safe_dump(put(later, key, value)))
        with pytest.raises(UserError, match=rf"^{beside}: .*{words}"):
            load(tmp_path, raw, "later")


def test_everything_that_a_grid_lacks_is_told_at_once(tmp_path: Path, raw: dict[str, Any]) -> None:
    raw["methods"] = {"attr_loss": {"weight": 1.0}}
    lacking = {"datasets": ["squares", "again", "square", "cars196"], "backbones": ["bn_inception"]}
    raw["grids"]["small"]["cells"][0] |= lacking | {"losses": ["cosface"], "methods": ["attr_los"]}
    raw["datasets"]["again"] = raw["datasets"]["squares"] | {"fit_probes_on": "squares", "probe_photos": 5}
    raw["datasets"]["squares"] |= {"masker": "nobody", "backgrounds": "nowhere", "fit_probes_on": "agian"}
    raw["evaluation"]["conditions"] = ["clean", "random_background", "either_mask"]
    raw["cures"] = {"names": ["gray"], "draws": 3}
    with pytest.raises(UserError) as told:
        load(tmp_path, raw)
    lacks = [
        *("'square' (did you mean 'squares'?)", "'cars196'", "'bn_inception'", "'cosface'", "'attr_los'"),
        "datasets.squares.masker: 'nobody'; there are: ",
        "datasets.squares.backgrounds: 'nowhere'; there are: ",
        "datasets.squares.fit_probes_on: 'agian' (did you mean 'again'?)",
        "on it; write datasets.squares.fit_probes_on: squares",
        "datasets.again.probe_photos: says nothing, since probes are fitted on photos of squares; write it at",
        "evaluation.conditions: either_mask is of audits with --second-masker alone",
        "cures.names: 'gray' (did you mean 'grey'?)",
        "cures.draws: 3 backgrounds a photo, of which models without a cure see 2 (evaluation.draws)",
    ]
    assert [name for name in lacks if name not in str(told.value)] == []
    assert str(told.value).count("attr_loss") == 2  # the nearest, and once among all that are there


def test_loss_settings_come_from_the_nearest_column(tmp_path: Path, raw: dict[str, Any]) -> None:
    def margin() -> float:
        return params.loss_options(load(tmp_path, raw), "squares", "triplet")["margin"]

    columns = raw["losses"]["triplet"]
    assert margin() == 0.1
    raw["datasets"]["squares"] |= {"losses": "mine"}
    columns["mine"] = {"margin": 0.3}
    assert margin() == 0.3
    del columns["default"], columns["mine"]
    raw["losses"]["contrastive"]["mine"] = raw["losses"]["contrastive"]["default"]
    with pytest.raises(UserError, match=r"triplet has no settings for squares; add losses\.triplet\.squares"):
        margin()


def test_shared_sources_follow_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BGBIAS_SHARED_DATA", str(tmp_path))
    assert places.source("shared:weights/x.pth") == tmp_path / "weights" / "x.pth"
    assert places.source("weights/x.pth") == Path("weights/x.pth")
    monkeypatch.delenv("BGBIAS_SHARED_DATA")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "params.yaml").touch()
    monkeypatch.chdir(tmp_path / "project")
    assert places.source("shared:x.zip") == tmp_path / "shared" / "data" / "x.zip"


# The project's own study.

# Margins, scales and rates of Kobs & Hotho 2022 (docs/methods.md, section 1), in the order CUB200, Cars196, SOP.
PUBLISHED = {
    ("contrastive", "pos_margin"): (-0.2, 0.26523382, 0.28502582),
    ("contrastive", "neg_margin"): (0.38411914, 0.54094059, 0.51301466),
    ("triplet", "margin"): (0.09610075, 0.11902737, 0.04519249),
    ("multi_similarity", "alpha"): (0.01, 14.358761, 8.4924963),
    ("multi_similarity", "beta"): (50.6017738, 75.8348638, 57.3886261),
    ("multi_similarity", "base"): (0.56248158, 0.66155558, 0.41673622),
    ("arcface", "margin"): (23.2259355, 20.5223089, 18.6318557),
    ("arcface", "scale"): (100, 49.5016521, 220.362852),
    ("arcface", "lr"): (0.0051384088, 7.3985e-6, 0.00201866),
    ("normalized_softmax", "temperature"): (0.10874715, 0.0886325, 0.06306244),
    ("normalized_softmax", "lr"): (0.0044689, 0.0110462, 5.46834e-4),
}


def test_the_paper_grid_is_the_published_study_with_five_seeds() -> None:
    study = params.load(ROOT / "params.yaml", "paper")
    chosen, train = plan.checked_cells(study), study.train
    assert len(chosen) == 3 * 5 * 2 * 5
    assert {c.backbone for c in chosen} == {"bn_inception"}
    assert {study.datasets[c.dataset].masker for c in chosen} == {"u2net"}
    assert (train.selection, study.mask_policy.keep_all) == ("published", True)
    datasets, losses = ("cub200", "cars196", "sop"), study.losses
    found = {(loss, key): tuple(float(losses[loss][d][key]) for d in datasets) for loss, key in PUBLISHED}
    assert found == PUBLISHED
    # docs/methods.md, section 1: 128 dimensions, batches of 32, 100 iterations an epoch, patience 15, RMSprop.
    assert (train.embedding_dim, train.batch_size, train.iterations_per_epoch) == (128, 32, 100)
    assert (train.max_epochs, train.patience, train.optimizer, train.lr) == (1000, 15, "rmsprop", 1e-6)
    assert (train.momentum, train.weight_decay, train.freeze_batch_norm) == (0.9, 1e-4, True)
