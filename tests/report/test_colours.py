"""Colours of methods: each its own, told apart by every eye, and read as letters."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import yaml
from matplotlib.colors import to_rgb
from project import ROOT

from bgbias import plugins
from bgbias.report import style as figures
from bgbias.report.names import entries
from bgbias.study import params, plan
from bgbias.study.cell import side_by_side

OWN = ROOT / "params.yaml"


def test_methods_keep_their_colours_and_entries_of_one_file_are_shades_of_its_own() -> None:
    assert (figures.colour("plain"), figures.colour("pretrained")) == ("#D9722A", "#7C838C")
    assert figures.colour("a new method") in figures.OTHERS
    of_one_file = [figures.colour(m) for m in ("sam_triplet_8+bgaugment", "sam_triplet", "sam_triplet_8")]
    levels = [sum(bytes.fromhex(c[1:])) for c in of_one_file]
    assert sorted(set(levels)) == levels
    files = [name for name in plugins.names("methods") if name != "untrained"]
    assert {figures.colour(name) for name in files} == set(figures.PALETTE)


# From linear light to what eyes without one kind of cones see of it (Machado, Oliveira & Fernandes 2009, severity 1).
EYES = {
    "all cones": np.eye(3),
    "no long": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no middle": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "no short": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


@pytest.mark.parametrize("grid", yaml.safe_load(OWN.read_text("utf-8"))["grids"])
def test_methods_of_a_grid_have_colours_that_every_eye_keeps_apart(grid: str) -> None:
    """Entries of a file are shades of its colour; losses have marks of their own, or panels."""
    cells = plan.cells(params.load(OWN, grid))
    colours = {c.method: figures.colour(c.method) for c in cells}
    assert len(set(colours.values())) == len(colours)
    for loss in {c.loss for c in cells}:
        beside = {c.method for c in cells if c.loss == loss and not side_by_side(c.method)[1]}
        for eyes in EYES if len(beside) > 1 else ():
            assert least_distance([colours[name] for name in beside], eyes) > 5, (loss, eyes)


def test_letters_in_a_methods_colour_can_be_read() -> None:
    files = plugins.names("methods")
    names = [
        *files,
        *(entry for file in files for entry in entries(file)),
        "attr_frac+bgaugment",
        "a new method",
    ]
    light = linear([figures.ink(name) for name in names]) @ [0.2126, 0.7152, 0.0722]
    assert (1.05 / (light + 0.05)).min() >= 4.5


def least_distance(colours: list[str], eyes: str) -> float:
    """In CIELAB, between any two."""
    seen = linear(colours) @ np.asarray(EYES[eyes]).T
    in_lab = cv2.cvtColor(unlinear(np.clip(seen, 0, 1))[None].astype(np.float32), cv2.COLOR_RGB2LAB)[0]
    apart = np.linalg.norm(in_lab[:, None] - in_lab[None], axis=2) + 1e3 * np.eye(len(colours))
    return float(apart.min())


def linear(colours: list[str]) -> np.ndarray:
    shares = np.array([to_rgb(c) for c in colours])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def unlinear(light: np.ndarray) -> np.ndarray:
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
