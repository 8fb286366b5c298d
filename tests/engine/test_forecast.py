"""What a grid will cost, counted by what the study fixes, and what it cannot know; and what datasets still need, by the disk."""

import math
from pathlib import Path
from typing import Any

import dcml_models
import fitting
import pytest
from miniatures import as_folder, jpeg
from project import fresh
from small_study import load
from torch import Tensor, nn

from bgbias.engine import availability, forecast, graph
from bgbias.engine.availability import Arrival
from bgbias.files.fetch import partial_download
from bgbias.nodes import backgrounds, fetch, index
from bgbias.study import params
from bgbias.study.params import Study
from bgbias.study.sources import sources_of

pytestmark = pytest.mark.usefixtures("small_plugins")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The project's params.yaml, in a copy in which nothing has been made."""
    monkeypatch.chdir(fresh(tmp_path / "project").folder)
    return Path("params.yaml")


def test_the_papers_study_is_counted_by_hand(own: Path) -> None:
    found = forecast.forecast(params.load(own, "paper"))
    photos = 11_788 + 16_185 + 120_053
    test = 5_924 + 8_131 + 60_502  # CUB's is estimated by its classes: 5,894
    assert (found["index"].images, found["masks"].forward) == (photos, (photos, photos))
    assert found["train"].nodes == 150
    # 100 batches of 32 an epoch, 16 epochs at least and 1,000 at most.
    assert found["train"].backward == (150 * 16 * 3_200, 150 * 1_000 * 3_200)
    assert found["embed"].forward[0] == pytest.approx(50 * test * 6, rel=1e-3)
    assert found["attribute"].backward[0] == pytest.approx(50 * test * 25, rel=1e-3)
    assert found["embed"].disk == pytest.approx(50 * test * 6 * 128 * 4, rel=1e-3)
    # Photos of 341 x 256 pixels in colour, masks of the same size in grey; 80, 20 and 100 backgrounds in colour.
    assert found["prepared"].images == photos + 80 + 20 + 100
    assert found["prepared"].disk == pytest.approx(341.3 * 256 * (photos * 4 + 200 * 3), rel=1e-4)
    assert not any(c.unknown for c in found.values())
    # Trainings of a fixed length are no range.
    train = forecast.forecast(params.load(own, "demo"))["train"]
    assert train.backward == (18 * 10 * 1_200, 18 * 10 * 1_200)
    assert train.forward[0] == train.backward[0] + 18 * 10 * 160  # 8 validation classes of 20 photos
    assert forecast._range((999_400, 999_600)) == "999 k .. 1 M"


def test_controls_and_cures_are_counted_by_hand(own: Path) -> None:
    controls = forecast.forecast(params.load(own, "controls_cub50"))
    assert controls["cross"].forward[0] == 8 * 50 * 100  # models, objects, backgrounds
    # Of 6 trained models 32 photos by 4 networks each: 25 noisy copies, and 9 shares taken out in two orders.
    assert controls["sanity"].backward[0] == 6 * 32 * 4 * 25
    assert controls["sanity"].forward[0] == 6 * 32 * 4 * (25 + 9 * 2)
    cures = forecast.forecast(params.load(own, "cures_cub50"))
    test, validation = 1_474, 295  # photos; test photos are seen twice
    assert cures["remask"].forward[0] == 2 * test
    # Four cures pass the network again; what two others fit sees validation photos, and 200 of their objects on 20 backgrounds.
    assert cures["cure"].forward[0] == 8 * (4 * 2 * test + validation + 200 * 20)


def test_photos_that_nobody_has_counted_are_told_until_the_index_has(
    raw: dict[str, Any], tmp_path: Path
) -> None:
    study = load(tmp_path, raw)
    assert forecast.forecast(study)["embed"].unknown
    index.index(study, "squares")
    assert "+?" in forecast.format_forecast(study, set())  # the backgrounds, which lie in folders
    backgrounds.backgrounds(study, "noise")
    counted = forecast.forecast(study)["embed"]
    assert not counted.unknown
    assert counted.images == 4 * 4 * 5  # models, test classes, photos
    assert "+?" not in forecast.format_forecast(study, set())


def test_what_is_left_takes_as_long_as_what_is_finished_took(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = params.load(own, "demo")
    nodes = graph.in_order(study)
    trains = [node for node in nodes if node.name == "train"]
    # All others are done in no time, and a third of the trainings took 100 s each.
    took = {node: 0.0 for node in nodes if node.name != "train"} | dict.fromkeys(trains[::3], 100.0)
    seconds = {node.record(study): {"seconds": s} for node, s in took.items()}
    monkeypatch.setattr(forecast.json_checksum, "read_any", lambda path: seconds.get(path, {}))
    assert forecast.format_forecast(study, set(took)).splitlines()[0] == (
        "forecast of grid demo: about 20 min for one step after the other (estimate)"
    )
    assert forecast.seconds_each(study, set(took)) == {"train": pytest.approx(100.0)}
    assert forecast.format_forecast(study, set(nodes)).startswith("forecast of grid demo: nothing is left\n")


def test_backgrounds_that_only_their_source_can_count_are_unknown_until_they_are_made(own: Path) -> None:
    prepared = {}
    for source in ("{source: walls.zip}", "{textures: 7}"):
        text = own.read_text().replace("{toy_scenes: 1500}", source)
        Path("edited.yaml").write_text(text)
        prepared[source] = forecast.forecast(params.load(Path("edited.yaml"), "demo"))["prepared"]
    unknown, counted = prepared.values()
    assert (unknown.unknown, counted.unknown) == (True, False)
    assert counted.images == unknown.images + 7 + 100 + 100


# How many photos a method sends through the trunk, counted where they pass.

Counts = dict[tuple[bool, bool], int]


def count(trunk: nn.Module) -> Counts:
    """Photos that go through a trunk from now on, by whether it is in training mode and whether gradients go back."""
    seen: Counts = {}

    def hook(trunk: nn.Module, given: tuple[Tensor], made: Tensor) -> None:
        key = trunk.training, made.requires_grad
        seen[key] = seen.get(key, 0) + len(made)

    trunk.register_forward_hook(hook)
    return seen


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in ("plain", "bgaugment", "sam_siamese", "sam_triplet", "sam_quad", "attr_frac", "attr_emb")),
        *(("sam_quad", options) for options in ({"anchors": 3}, {"anchors": 99}, {"gamma": 0})),
        *(("attr_loss", {"weight": 1, **more}) for more in ({}, {"photos": 3})),
        *((kind, {"photos": 3}) for kind in ("attr_frac", "attr_emb")),
        *((kind, {}) for kind in ("dcml_code", "dcml_paper", "st_unfrozen")),
        *[("at", {"epsilon": 0}), ("mdprop", {"kappa": 0})],
        *(("at", {"attacks": ["stax", "mtax:2"], "steps": steps}) for steps in (1, 3)),
        ("advprop_d", {"steps": 3}),
        *(("mdprop", {"attacks": ["stax", "mtax:2"], "steps": 3, **more}) for more in ({}, {"losses": "joint_half"})),
    ],
)  # fmt: skip
def test_photos_of_a_step_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    """Attacks, on the way back through a network in evaluation mode, make no gradient of a weight: three photos are two."""
    method = fitting.method(kind, "cosface" if kind.startswith("dcml") else "triplet", **options)
    seen = count(method.model.trunk)
    method.loss(fitting.batch())["loss"].backward()
    share = 2 / 3 if kind in ("at", "advprop_d", "mdprop") else 1
    backward = seen.get((True, True), 0) + math.ceil(seen.get((False, True), 0) * share)
    assert type(method).photos_a_step(getattr(method, "params", None), 8) == (sum(seen.values()), backward)


@pytest.mark.parametrize(
    "options",
    [{}, {"passes": 2}, {"update_every": 2}, {"weights": "random"}, {"environments": 1}],
)
@pytest.mark.parametrize("kind", dcml_models.KINDS)
def test_photos_between_epochs_are_as_many_as_forecast(kind: str, options: dict[str, Any]) -> None:
    method = dcml_models.built(kind, **options)
    seen = count(method.model.trunk)
    for epoch in range(1, 7):
        method.start_epoch(epoch, dcml_models.passes)
    found = type(method).photos_between_epochs(method.params, len(dcml_models.LABELS), 6)
    assert (sum(seen.values()), sum(n for (_, back), n in seen.items() if back)) == (found, 0)


# What datasets still need.


@pytest.fixture
def study(raw: dict[str, Any], tmp_path: Path) -> Study:
    common = {"masker": "ground_truth", "backgrounds": "noise"}
    as_folder(tmp_path / "photos", {f"{c}/1.jpg": jpeg(c) for c in range(6)})
    raw["datasets"] |= {
        "birds": {"kind": "cub200", "options": {"segmentations": True}, **common},
        "cars": {"kind": "cars196", "options": {"files": "car_ims.tgz"}, **common},
        "products": {"kind": "sop", **common},
        "mine": {"kind": "folder", "options": {"source": f"{tmp_path}/photos"}, **common},
        "yours": {"kind": "folder", "options": {"source": f"{tmp_path}/nowhere"}, **common},
        "later": {"kind": "in_shop", **common},
    }
    return load(tmp_path, raw)


def arrivals_of(study: Study) -> dict[tuple[str, str], Arrival]:
    return {(a.dataset, a.part): a for a in availability.arrivals(study)}


def test_nothing_is_here_yet(study: Study, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = arrivals_of(study)
    assert {key: a.state for key, a in found.items()} == {
        ("squares", ""): "rendered",
        ("birds", "photos"): "to fetch",
        ("birds", "segmentations"): "to fetch",
        ("cars", "photos"): "by hand",
        ("cars", "annotations"): "by hand",
        ("products", "photos"): "to fetch",
        ("mine", "photos"): "to fetch",
        ("yours", "photos"): "missing file",
        ("later", ""): "no kind 'in_shop'",
    }
    assert found["birds", "photos"].size == 1_150_585_339
    assert found["birds", "photos"].step == "python -m bgbias fetch birds photos"
    assert found["cars", "annotations"].step.startswith("put cars_annos.mat (md5 b407c6086d669747186bd1d764")
    assert found["cars", "annotations"].step.endswith(f") into {study.paths.downloads}/")
    assert f"{tmp_path}/nowhere" in found["yours", "photos"].step
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_on_the_disk_is_told(study: Study) -> None:
    downloads = Path(study.paths.downloads)
    downloads.mkdir()
    (downloads / "cars_annos.mat").write_bytes(b"x" * 2_000_000)
    target = study.files.at("part", dataset="birds", part="photos")
    partial = partial_download(target, sources_of(study, "birds", "photos")[1])
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x" * 1_500_000)
    fetch.fetch(study, "mine", "photos")
    found = arrivals_of(study)
    assert found["cars", "annotations"].state == f"in {downloads}"
    assert found["cars", "annotations"].step == "python -m bgbias fetch cars annotations"
    assert found["birds", "photos"].state == "partly downloaded, 1.5 of 1,150.6 MB"
    assert found["mine", "photos"].state == "there"
    assert found["mine", "photos"].step == "python -m bgbias index mine"
    index.index(study, "mine")
    assert arrivals_of(study)["mine", "photos"].step == ""
    study.files.at("fetch_record", dataset="mine", part="photos").write_text("{")
    assert arrivals_of(study)["mine", "photos"].state == "to fetch"


def test_the_table_of_all_or_of_the_grid_alone_fits_a_hundred_columns(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    availability.show(study)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert {line.split()[0] for line in lines if not line.startswith(" ")} >= set(study.datasets)
    assert "".join("".join(lines).split()).endswith("grid=small--data")
    assert [a.dataset for a in availability.arrivals(study, only_grid=True)] == ["squares"]
