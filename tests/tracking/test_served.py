"""What MLflow serves: trained models from its registry, whose one call turns photos into the embeddings of ``bgbias embed``; and,
through a real server, its pages in a browser, ``bgbias ui``, and PostgreSQL below it.
"""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pandas as pd
import pytest
from handmade_records import MODEL, TRAIN, Project
from mlflow_servers import free_port, mlflow_server, postgresql
from project import PATIENCE, hear_interrupts

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.evaluation.embedder import Embedder
from bgbias.images import pixels
from bgbias.models import model
from bgbias.tracking import entries, store, ui

NAME = "demo-toy_090-small-contrastive-bgaugment-seed0"
DIMENSION = 16
pytestmark = pytest.mark.usefixtures("small_plugins")


def trained(project: Project, seed: int = 0, **more: Any) -> Path:
    """A training's record and its weights: of a backbone and a neck that are somebody's own."""
    weights = project.data / "runs/demo/models/model.safetensors"
    params = plugins.load("backbones", "pixels").Params()
    made = model.build_model("pixels", params, DIMENSION, seeds.torch_generator("model", seed))
    made.add_neck("gains", plugins.load("necks", "gains").Params(channels=made.embedder.in_features))
    model.save(made, weights)
    checksum = hashlib.sha256(weights.read_bytes()).hexdigest()
    project.history(2)
    spec = {"train": {"embedding_dim": DIMENSION}, "loss": {"margin": 0.5}}
    project.training(spec=spec, outputs={str(weights): checksum}, **more)
    return weights


def photos() -> list[np.ndarray]:
    """Three photos of different sizes."""
    generator = np.random.default_rng(0)
    sizes = ((80, 120), (200, 90), (64, 64))
    return [generator.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in sizes]


def naive(weights: Path, photo: np.ndarray) -> np.ndarray:
    """A photo through the model as it was saved, with torch alone."""
    import torch

    found = model.load(weights)
    seen = pixels.centre_crop(pixels.resize_short(photo, found.resize), found.input_size)
    x = torch.from_numpy(seen.copy()).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        return found(found.preprocess(x)).numpy()[0]


SERVED = """
import json, mlflow, numpy, pandas, pathlib, sys
files = ["0.png", "1.png", "2.png"]
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
encoded = pandas.DataFrame({"photo": [pathlib.Path(file).read_bytes() for file in files]})
numpy.savez("made.npz", path=model.predict({"path": files}), photo=model.predict(encoded),
            example=model.predict(model.input_example))
ours = [m.__file__ for n, m in sys.modules.items() if n.split(".")[0].startswith("bgbias")]
print(json.dumps([ours, model.metadata.signature.to_dict()]))
"""


def test_a_registered_model_holds_nothing_pickled_and_embeds_where_neither_bgbias_nor_plugins_are(
    project: Project,
) -> None:
    weights = trained(project)
    project.sync()
    files = [p for p in (project.root / "mlartifacts").rglob("*") if p.is_file()]
    assert not {p.suffix for p in files} & {".pkl", ".pickle", ".pt", ".pth", ".bin"}
    (kept,) = (p for p in files if p.suffix == ".safetensors")
    assert kept.read_bytes() == weights.read_bytes()
    assert [p.name for p in files if not p.suffix] == ["MLmodel"]
    for number, photo in enumerate(photos()):
        (project.root / f"{number}.png").write_bytes(pixels.encode_png(photo))

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-c", SERVED, project.uri, f"models:/{NAME}@current"]
    said = subprocess.check_output(command, cwd=project.root, env=environment)
    loaded, signature = json.loads(said.splitlines()[-1])
    (root,) = (p for p in (project.root / "mlartifacts").rglob("code") if p.is_dir())
    assert {str(Path(p).relative_to(root)) for p in loaded} >= {"bgbias/models/backbones/pixels.py"}
    inputs, (output,) = (json.loads(signature[part]) for part in ("inputs", "outputs"))
    assert [(c["name"], c["type"]) for c in inputs] == [("photo", "binary"), ("path", "string")]
    assert output["tensor-spec"] == {"dtype": "float32", "shape": [-1, DIMENSION]}
    made = np.load(project.root / "made.npz")
    np.testing.assert_array_equal(made["path"], made["photo"])
    np.testing.assert_allclose(made["path"], Embedder(weights, "cpu").embed(photos()), rtol=0, atol=1e-6)
    expected = [naive(weights, photo) for photo in photos()]
    np.testing.assert_allclose(made["path"], expected, rtol=0, atol=1e-5)
    assert np.linalg.norm(made["example"], axis=1) == pytest.approx(1, abs=1e-5)


def test_wrong_input_is_told_in_words(project: Project) -> None:
    embedder = Embedder(trained(project), "cpu")
    with pytest.raises(UserError, match=r"one column: 'photo'.*found: images"):
        embedder.predict(pd.DataFrame({"images": [1]}))
    with pytest.raises(UserError, match=r"Photo 0: the picture nowhere.jpg is missing"):
        embedder.predict(pd.DataFrame({"path": ["nowhere.jpg"]}))
    with pytest.raises(UserError, match="'photo 1' cannot be decoded"):
        embedder.predict(pd.DataFrame({"photo": [pixels.encode_png(photos()[0]), b"no picture"]}))
    with pytest.raises(UserError, match=r"Photo 0 is float64 \[8, 8, 3\]"):
        embedder.embed([np.zeros((8, 8, 3))])


def test_a_training_is_one_version_and_the_last_one_is_current(project: Project) -> None:
    from mlflow import MlflowClient

    weights, client = trained(project), MlflowClient(project.uri)
    elsewhere = weights.rename(project.root / "elsewhere")
    project.sync()
    assert not client.search_registered_models()  # weights that are not here are registered when they come
    elsewhere.rename(weights)
    project.sync()
    project.sync()
    (first,) = client.search_model_versions(f"name = '{NAME}'")
    assert client.get_run(first.run_id).data.tags["bgbias.digest"] == first.tags["digest"]
    assert first.tags["method"] == "bgaugment"

    # Another training is another version, and the first one made again is the first.
    for seed, hour in ((1, 13), (0, 14)):
        trained(project, seed, started=f"2025-06-01T{hour}:00:00+00:00")
        project.sync()
        assert len(client.search_model_versions(f"name = '{NAME}'")) == 2
        current = client.get_model_version_by_alias(NAME, "current")
        assert (current.version == first.version) == (seed == 0)


# Through a server.


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium here: apt-get install chromium")
def test_tables_and_charts_are_there_at_once(chained: Project) -> None:
    chained.sync()
    with store.experiment(chained.uri, "demo") as found:
        experiment = found.identity
    with mlflow_server(chained.root, chained.uri, free_port()) as server, chromium.browsing() as page:

        def open_view(view: str) -> None:
            page.open(f"{server}/{entries.page(experiment, view)}", 1600, 1200)

        open_view("cell")
        page.wait_for_text(f"Group: {MODEL[:20]}", "seed 0", "MAP at R clean", "MAP at R corrupted")
        assert "45" in page.text
        assert TRAIN not in page.text
        open_view("compare")
        page.wait_for_text("Clean and corrupted (4)", "MAP at R clean vs. MAP at R corrupted", "Drop percent")
        page.wait_for(
            "document.querySelectorAll('.plotly .scatterlayer .points path, .plotly .barlayer path').length"
        )
        open_view("train")
        page.wait_for_text(MODEL[:20], "Training curves (3)", "epoch/loss", "epoch/validation MAP at R")
        page.wait_for("document.querySelectorAll('.plotly .scatterlayer .lines path').length")
        assert page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("send", "number", "status"),
    [(os.killpg, signal.SIGINT, 0), (os.kill, signal.SIGTERM, 128 + signal.SIGTERM)],
    ids=["Ctrl-C in a terminal", "kill"],
)
def test_the_address_comes_when_the_server_answers_and_it_ends_with_the_command(
    chained: Project, send: Callable[[int, int], None], number: int, status: int
) -> None:
    chained.sync()
    port, log = free_port(), chained.root / "said"
    words = [sys.executable, "-m", "bgbias", "ui", "demo", "--port", str(port), "--uri", chained.uri]
    with log.open("w") as said:
        command = subprocess.Popen(
            words,
            cwd=chained.root,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
            preexec_fn=hear_interrupts,
        )
    try:
        assert command.stdout is not None
        address = next(line for line in command.stdout if line.startswith("open ")).split()[1]
        assert address.startswith(f"http://127.0.0.1:{port}/#/experiments/")
        with urllib.request.urlopen(address, timeout=PATIENCE) as page:
            assert b"MLflow" in page.read()
        send(command.pid, number)
        assert command.wait(timeout=PATIENCE) == status
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert "bgbias:" not in log.read_text()
    finally:
        if command.poll() is None:
            os.killpg(command.pid, signal.SIGKILL)
            command.wait()


@pytest.mark.slow
def test_a_server_that_ends_by_itself_is_told_and_no_address_is(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"MLflow's server has ended \(exit status 1\)\. Put right"):
        ui.serve("nothing://here", free_port(), "http://here")
    assert "open" not in capfd.readouterr().out.split()


def test_a_port_that_is_taken_is_told_before_a_server_begins() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} is in use; name another one: bgbias ui --port"):
            ui.check_free(port)


@pytest.mark.slow
def test_a_server_on_postgresql_takes_what_four_machines_write_at_once(chained: Project) -> None:
    from mlflow import MlflowClient

    with postgresql() as address:
        picture = chained.data / "report/demo/figures/drop.png"
        picture.parent.mkdir(parents=True)
        picture.write_bytes(b"picture")
        chained.record("report/demo/figures/drop.json", "figure", "drop", outputs={str(picture): "3" * 64})
        with mlflow_server(chained.root, address, free_port()) as uri:
            chained.history(60)
            code = f"""
import sys; from pathlib import Path; from bgbias.tracking import watch
print(watch.sync([Path({str(chained.data)!r})], {uri!r}, "demo"))
"""
            machines = []
            for number in range(4):
                # Each with a folder for locks of its own, as on machines that know nothing of one another.
                (folder := chained.root / f"machine{number}").mkdir()
                own = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(folder)}
                machines.append(subprocess.Popen([sys.executable, "-c", code], env=os.environ | own))
            assert [machine.wait(timeout=PATIENCE) for machine in machines] == [0] * 4
            # What two made twice, a last look puts right.
            chained.sync_to(uri)
            assert chained.sync_to(uri) == (0, 0, 7)
            client = MlflowClient(uri)
            experiment = client.get_experiment_by_name("bgbias-demo")
            assert experiment
            found = {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}
            assert len(found) == 7
            assert len(client.get_metric_history(found[TRAIN].info.run_id, "epoch/loss")) == 60
            assert found[MODEL].data.metrics["Drop percent"] == 25
        # Those of runs that were made twice and deleted are among them.
        shown = (chained.root / "artifacts").rglob("drop.png")
        assert {copy.read_bytes() for copy in shown} == {b"picture"}
