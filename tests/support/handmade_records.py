"""A project of records written by hand, for the tests of what MLflow shows."""

import hashlib
import json
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bgbias.tracking import store, watch

TRAIN = "train Contrastive + BGAugment, toy_090, seed 0 (small)"
SCORE = "score Contrastive + BGAugment, toy_090, seed 0 (small)"
MODEL = "Contrastive + BGAugment, toy_090, seed 0 (small)"
START = "2025-06-01T12:00:00+00:00"
CELL = {"dataset": "toy_090", "backbone": "small", "loss": "contrastive", "method": "bgaugment", "seed": 0}
NAME = "toy_090/small/contrastive/bgaugment/seed0"
PHOTOS = "data/work/datasets/toy_090/photos.zip"


@dataclass
class Project:
    """A folder of records written by hand, and a store beside it."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.root / 'mlflow.db'}"

    def record(self, path: str, node: str, subject: str, **more: Any) -> Path:
        """A record as nodes write it: of the cell if that is the subject, finished after 5 s."""
        more = {"status": "done", **more}
        if more["status"] == "done":
            more = {"finished": "2025-06-01T12:00:05+00:00", "seconds": 5.0, "peak_memory_mb": 700.5, **more}
        spec = {"node": node, **more.pop("spec", {})}
        written = {
            "node": node,
            "subject": subject,
            "cell": CELL if subject == NAME else None,
            "grid": "demo",
            "spec": spec,
            "digest": hashlib.sha256(json.dumps(spec).encode()).hexdigest()[:16],
            "started": START,
            "command": f"python -m bgbias {node} {subject}",
            "git_commit": "0" * 40,
            "host": platform.node(),
            **more,
        }
        file = self.data / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(written))
        return file

    def training(self, **more: Any) -> Path:
        history = {"history": str(self.data / "runs/demo/models/history.csv")}
        return self.record(f"runs/demo/models/{NAME}/run.json", "train", NAME, **(history | more))

    def asked(self, node: str, **more: Any) -> Path:
        """The record of what the cell's model is asked."""
        return self.record(f"runs/demo/scores/{NAME}/{node}.json", node, NAME, **more)

    def history(self, epochs: int, text: str = "", loss: float = 1.0, seconds: bool = True) -> None:
        """Epochs so far; without ``seconds``, those of a finished training, whose record has them."""
        spent, heads = (",1.5,0.5", ",train_seconds,validate_seconds") if seconds else ("", "")
        rows = [
            f"{e},{loss / e:.4f},{0.5 - 0.3 / e:.4f},{0.4 - 0.3 / e:.4f}{spent}\n"
            for e in range(1, epochs + 1)
        ]
        file = self.data / "runs/demo/models/history.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"epoch,loss,val_map_at_r,val_corrupted_map_at_r{heads}\n" + "".join(rows) + text)

    def sync(self) -> tuple[int, int, int]:
        """With a store as one made now would be."""
        if not (self.root / "mlflow.db").exists():
            self.make_store()
        return self.sync_to(self.uri)

    def make_store(self) -> None:
        (self.root / "mlflow.db").write_bytes(_empty_store())

    def sync_to(self, uri: str) -> tuple[int, int, int]:
        done = watch.sync([self.data], uri, "demo")
        return done.created, done.updated, done.unchanged

    def runs(self) -> dict[str, Any]:
        """The store's runs by name."""
        with store.experiment(self.uri, "demo") as experiment:
            found = experiment.client.search_runs([experiment.identity])
        assert len({run.info.run_name for run in found}) == len(found)
        return {run.info.run_name: run for run in found}

    def curve(self, run: Any, metric: str) -> list[tuple[int, float]]:
        with store.experiment(self.uri, "demo") as experiment:
            points = experiment.client.get_metric_history(run.info.run_id, metric)
        return [(point.step, point.value) for point in points]


@cache
def _empty_store() -> bytes:
    """A database with MLflow's tables, whose making takes a second: once a process."""
    from mlflow import MlflowClient

    with TemporaryDirectory() as folder:
        database = Path(folder) / "mlflow.db"
        MlflowClient(tracking_uri=f"sqlite:///{database}").get_experiment("0")
        return database.read_bytes()


def whole_grid(project: Project) -> None:
    """Three nodes: a training with a history, a scoring, and a figure."""
    project.history(130)
    train = {"lr": 1e-4, "crop_scale": [0.16, 1.0]}
    spec = {"train": train, "loss": {"margin": 0.5}, "index": "ab" * 8, "backbone": {}}
    model = {f"data/runs/demo/models/{NAME}/model.safetensors": "1" * 64}
    inputs = {PHOTOS: "2" * 64, f"data/runs/demo/models/{NAME}/checkpoint": "5" * 64}
    found = {"best_val_map_at_r": 0.4}
    project.training(spec=spec, inputs=inputs, outputs=model, metrics=found, device="cpu")
    results = {"map_at_r_clean": 0.6, "map_at_r_corrupted": 0.5, "relative_drop": 1 / 6}
    project.asked("score", metrics=results)
    figure = project.data / "report/demo/figures/drop.png"
    figure.parent.mkdir(parents=True)
    figure.write_bytes(b"picture")
    project.record("report/demo/figures/drop.json", "figure", "drop", outputs={str(figure): "3" * 64})


def chain(project: Project) -> None:
    """The nodes of one model, each building on the digests of those before it, as far as its attribution."""

    def digest(path: Path) -> str:
        return str(json.loads(path.read_text())["digest"])

    project.history(3)
    file, toys = "data/work/masks/toy_090/u2netp/masks.zip", "https://example.org/toys.zip"
    photos, masks = {PHOTOS: "2" * 64}, {file: "4" * 64}
    counts = {"photos": 30, "classes": 6, "photos_train": 20, "photos_test": 10}
    of_index: dict[str, Any] = {"outputs": photos, "collection": ("photos", PHOTOS), "metrics": counts}
    of_index |= {"spec": {"kind": "toy", "options": {"source": toys}}, "grid": "another"}
    index = digest(project.record("work/datasets/toy_090/index.json", "index", "toy_090", **of_index))
    of_masks = {"outputs": masks, "collection": ("masks", file), "metrics": {"photos": 30, "empty": 1}}
    of_masks |= {"spec": {"kind": "u2netp", "index": index}, "inputs": photos}
    masked = project.record("work/masks/toy_090/u2netp/masks.json", "masks", "toy_090/u2netp", **of_masks)
    best = {"best_val_map_at_r": 0.4, "best_val_corrupted_map_at_r": 0.3, "best_epoch": 3}
    trained = project.training(
        spec={"train": {"lr": 1e-4}, "index": index, "loss": {"margin": 0.5}},
        inputs=photos,
        metrics=best | {"images_per_second": 50.0},
    )
    made = {"train": digest(trained), "masks": digest(masked)}
    embedded = project.asked(
        "embed",
        spec={"evaluation": {"draws": 5}, **made},
        inputs=photos | masks,
        metrics={"photos": 10},
        peak_memory_mb=900.0,
    )
    results = {"map_at_r_clean": 0.6, "map_at_r_corrupted": 0.45, "relative_drop": 0.25}
    results |= {"precision_at_1_corrupted": 0.7}
    project.asked("score", spec={"embed": digest(embedded)}, metrics=results)
    scores = {"attribution_ref": 0.3, "attribution_robust": 0.35}
    project.asked("attribute", spec={"attribution": {"samples": 25}, **made}, metrics=scores)
