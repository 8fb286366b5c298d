"""Weights that cannot work, and arithmetic that this machine lacks, are told before anything runs."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import small_study
import torch
from project import ROOT, Project
from safetensors.torch import save_file

from bgbias import plugins
from bgbias.compute import processor
from bgbias.engine import checks, graph
from bgbias.errors import UserError
from bgbias.models import backbones
from bgbias.study.params import Study, load


def study_of(folder: Path, backbone: str, weights: Path | str | None) -> Study:
    """The small study with this backbone."""
    raw = small_study.described(folder)
    raw["backbones"] = {backbone: {"weights": str(weights) if weights else None}}
    raw["grids"]["small"]["cells"][0]["backbones"] = [backbone]
    return small_study.load(folder, raw)


def state_of(backbone: str) -> dict[str, torch.Tensor]:
    module = plugins.load("backbones", backbone)
    return backbones.build(backbone, module.Params(weights=None)).state_dict()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"conv1.weight": torch.zeros(64, 3, 3, 3)}, r"'conv1.weight' is \[64, 3, 3, 3\] where \[64, 3, 7, 7\] is needed\."),
        ({"conv1.weight": None, "bn1.weight": None}, r"'conv1.weight' is missing \(and 1 more of its tensors"),
    ],
)  # fmt: skip
def test_a_file_of_other_shapes_or_names_is_told_with_both(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    file = tmp_path / "own.pth"
    torch.save({k: v for k, v in (state_of("resnet18") | change).items() if v is not None}, file)
    told = rf"{file} does not hold weights of resnet18: {words}.*backbones\.resnet18\.weights"
    with pytest.raises(UserError, match=told):
        checks.check(study_of(tmp_path, "resnet18", file))


def test_names_that_a_wrapper_began_are_told_with_the_command_that_mends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "own.pth"
    torch.save({f"module.{name}": tensor for name, tensor in state_of("resnet18").items()}, file)
    with pytest.raises(UserError, match=r"all its names begin with 'module\.'") as told:
        checks.check(study_of(tmp_path, "resnet18", file))
    exec(shlex.split(str(told.value).partition("take that away: ")[2].rpartition('"')[0] + '"')[2])
    mended = tmp_path / "own_weights.pth"
    checks.check(study_of(tmp_path, "resnet18", mended))
    # What was found right is not read again until it changes.
    with monkeypatch.context() as patched:
        patched.setattr(torch, "load", None)
        checks.check(study_of(tmp_path, "resnet18", mended))
    mended.write_bytes(b"another file")
    with pytest.raises(UserError, match="damaged or of an unknown kind"):
        checks.check(study_of(tmp_path, "resnet18", mended))


def test_the_masker_that_proposes_backgrounds_is_looked_at_too(raw: dict[str, Any], tmp_path: Path) -> None:
    save_file(state_of("resnet18"), tmp_path / "own.safetensors")
    raw["maskers"]["own"] = {"kind": "u2netp", "options": {"weights": str(tmp_path / "own.safetensors")}}
    raw["backgrounds"]["proposed"] = {"propose": {"source": str(tmp_path), "masker": "own", "licence": "CC0"}}
    raw["datasets"]["squares"]["backgrounds"] = "proposed"
    with pytest.raises(UserError, match=r"does not hold the weights of 'own': .* is missing"):
        checks.check(small_study.load(tmp_path, raw))


def test_a_misspelt_name_of_timms_is_told_with_near_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model of timm .*_244'. Did you mean vit_tiny_patch16_224"):
        checks.check(study_of(tmp_path, "timm:vit_tiny_patch16_244", "published"))


@pytest.mark.workflow
def test_the_commands_say_it_before_anything_runs(tmp_path: Path) -> None:
    study_of(tmp_path, "resnet18", tmp_path / "none.pth")
    missing = "none.pth of backbones/resnet18 is missing"
    words = ("--snakefile", str(ROOT / "Snakefile"), "--config", "grid=small", "--dry-run")
    assert missing in Project(tmp_path).snakemake(*words, check=False)


def test_a_part_that_is_to_stay_frozen_is_looked_for_too(tmp_path: Path) -> None:
    study = study_of(tmp_path, "resnet18", None)
    known, unknown = (
        study.model_copy(update={"train": study.train.model_copy(update={"frozen": (part,)})})
        for part in ("layer1.0", "block1")
    )
    checks.check(known)
    with pytest.raises(UserError, match=r"resnet18 has no part 'block1' .* Its parts are conv1, bn1"):
        checks.check(unknown)


def test_settings_that_would_be_emulated_are_named(
    raw: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # no GPU
    study = load(ROOT / "params.yaml", "cub50")
    for instructions in (("avx512_bf16",), None):
        monkeypatch.setattr(processor, "bf16", lambda known=instructions: known)
        assert not checks.emulation_warning(study, frozenset())
    monkeypatch.setattr(processor, "bf16", lambda: ())
    said = checks.emulation_warning(study, frozenset())
    assert said.startswith("train.precision and attribution.precision of grid cub50: bf16")
    assert not checks.emulation_warning(study, frozenset(graph.in_order(study)))
    assert not checks.emulation_warning(load(ROOT / "params.yaml", "demo"), frozenset())
    # A pretraining has a precision of its own.
    raw["pretrainings"] = {"own": {"kind": "byol", "precision": "bf16"}}
    raw["backbones"]["learned"] = {"kind": "pixels", "pretraining": "own"}
    raw["grids"]["small"]["cells"][0] |= {"backbones": ["learned"]}
    said = checks.emulation_warning(small_study.load(tmp_path, raw), frozenset())
    assert said.startswith("pretrainings.own.precision of grid small: bf16")
