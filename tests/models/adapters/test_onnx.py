"""ONNX graphs embed as the network does that they were made of; what a graph tells of its input is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from brought_models import assert_equal, ours, theirs
from onnx import TensorProto, helper, numpy_helper
from torchvision.transforms import CenterCrop, Compose, Normalize, Resize, ToTensor

from bgbias import seeds
from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

KERNEL = seeds.generator("onnx").normal(size=(6, 3, 8, 8)).astype(np.float32)
USUAL = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def graph(
    path: Path,
    shape: tuple[int | str, ...] = ("batch", 3, 32, 32),
    kind: int = TensorProto.FLOAT,
    outputs: tuple[str, ...] = ("vectors",),
    inputs: tuple[str, ...] = ("pixels",),
) -> str:
    """A convolution and the mean of its map, written as ONNX."""
    nodes = []
    entry = inputs[0]
    if kind != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", [entry], ["as_float"], to=TensorProto.FLOAT))
        entry = "as_float"
    if shape[-1] == 3:
        nodes.append(helper.make_node("Transpose", [entry], ["channels_first"], perm=[0, 3, 1, 2]))
        entry = "channels_first"
    nodes.append(helper.make_node("Conv", [entry, "kernel"], ["map"], strides=[8, 8]))
    nodes.append(helper.make_node("GlobalAveragePool", ["map"], ["pooled"]))
    nodes += [helper.make_node("Flatten", ["pooled"], [name]) for name in outputs if name != "map"]
    made = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info(name, kind, shape) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(KERNEL, "kernel")],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return str(path)


def right_for_two(path: Path) -> str:
    """The same graph, whose rows from the third on are the first one's: what a wrong axis in an export gives."""
    model = onnx.load(graph(path))
    model.graph.node[-1].output[0] = "right"
    for name, values in {"zero": [0], "one": [1], "two": [2], "many": [10**6]}.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(values), name))
    model.graph.node.extend(
        [
            helper.make_node("Slice", ["right", "zero", "two", "zero"], ["two_rows"]),
            helper.make_node("Slice", ["right", "zero", "one", "zero"], ["row"]),
            helper.make_node("Slice", ["right", "two", "many", "zero"], ["others"]),
            helper.make_node("Sub", ["others", "others"], ["nothing"]),
            helper.make_node("Add", ["nothing", "row"], ["wrong"]),
            helper.make_node("Concat", ["two_rows", "wrong"], ["vectors"], axis=0),
        ]
    )
    onnx.save(model, path)
    return str(path)


def test_a_graph_that_is_wrong_from_the_third_picture_on_is_refused(tmp_path: Path) -> None:
    """At the number of pictures that goes through it, not at one or two."""
    found = load(right_for_two(tmp_path / "model.onnx"))
    views = seeds.generator("views").integers(0, 256, (64, 32, 32, 3), np.uint8)
    np.testing.assert_allclose(found.embed(views[:2])[1], found.embed(views[1:2])[0], rtol=1e-5)
    with pytest.raises(UserError, match="gives picture 33 of 64 another vector among the others than alone"):
        found.embed(views)
    with pytest.raises(UserError, match="gives picture 3 of 3 another vector"):
        found.embed(views[:3])


def network(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.conv2d(x, torch.from_numpy(KERNEL), stride=8).mean((2, 3))


def expected(side: int = 32, normalise: Any = USUAL) -> np.ndarray:
    return theirs(Compose([Resize(side * 256 // 224), CenterCrop(side), ToTensor(), normalise]), network)


@pytest.mark.parametrize(
    "shape", [("batch", 3, 32, 32), (1, 3, 32, 32), ("batch", 32, 32, 3), (1, 32, 32, 3)]
)
def test_vectors_are_those_of_the_network(shape: tuple[int | str, ...], tmp_path: Path) -> None:
    """Channels first and last, one picture at a time and many."""
    found = load(graph(tmp_path / "model.onnx", shape))
    assert_equal(ours(found), expected())
    assert found.look.size == 32
    assert found.network is None


def test_a_graph_of_whole_numbers_is_given_grey_levels(tmp_path: Path) -> None:
    path = graph(tmp_path / "model.onnx", kind=TensorProto.UINT8)
    assert_equal(ours(load(f"onnx:{path}")), expected(normalise=lambda x: 255 * x))
    with pytest.raises(UserError, match=r"--mean means nothing to .*, which takes grey levels"):
        load(path, Options(mean=(0.5, 0.5, 0.5)))


def test_colours_are_normalised_as_is_said(tmp_path: Path) -> None:
    half = (0.5, 0.5, 0.5)
    found = load(graph(tmp_path / "model.onnx"), Options(mean=half, std=half))
    assert_equal(ours(found), expected(normalise=Normalize(half, half)))


def test_a_graph_of_any_size_needs_one(tmp_path: Path) -> None:
    path = graph(tmp_path / "model.onnx", ("batch", 3, "height", "width"))
    with pytest.raises(UserError, match="any size; say which one it was trained with: --size 224"):
        load(path)
    assert_equal(ours(load(path, Options(size=40))), expected(40))


def test_the_output_is_vectors_or_a_map(tmp_path: Path) -> None:
    assert_equal(ours(load(graph(tmp_path / "map.onnx", outputs=("map",)))), expected())
    several = load(graph(tmp_path / "several.onnx", outputs=("map", "image_embeds")))
    assert_equal(ours(several), expected())
    assert "output: 'image_embeds' of map, image_embeds" in several.told
    with pytest.raises(
        UserError, match=r"outputs map, other, none of which is called as vectors usually are"
    ):
        load(graph(tmp_path / "unknown.onnx", outputs=("map", "other")))


def test_graphs_that_are_no_image_encoders_are_told(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"2 inputs \(pixels, words\); export the part that embeds images alone"
    ):
        load(graph(tmp_path / "two.onnx", inputs=("pixels", "words")))
    with pytest.raises(UserError, match=r"takes tensor\(int64\) .*, not pictures"):
        load(graph(tmp_path / "text.onnx", ("batch", 3, 32, 32), TensorProto.INT64))
    with pytest.raises(UserError, match="pictures of 32 pixels and no others; leave --size 48 out"):
        load(graph(tmp_path / "model.onnx"), Options(size=48))
    with pytest.raises(UserError, match=r"none.onnx is missing; correct --model"):
        load(tmp_path / "none.onnx")
    (tmp_path / "page.onnx").write_text("<html>")
    with pytest.raises(UserError, match=r"page.onnx could not be loaded: "):
        load(tmp_path / "page.onnx")
    with pytest.raises(UserError, match=r"without GPUs: --device cuda cannot be"):
        load(graph(tmp_path / "model.onnx"), Options(device="cuda"))
