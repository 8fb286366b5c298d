"""Node: a model's test photos, attacked on its own network."""

import itertools
from dataclasses import replace

import numpy as np

from bgbias import plugins, progress
from bgbias.attacks import Strength
from bgbias.engine import inputs, records
from bgbias.engine.forecast import Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, files_of, step
from bgbias.evaluation.conditions import CLEAN, RANDOM_BACKGROUND
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

SUBJECT = ("cell",)
OUTPUTS = {
    "attacked": f"RUNS/scores/{CELL}/attacked.parquet",
    "attacked_metrics": f"RUNS/scores/{CELL}/attacked.csv",
    "attack_record": f"RUNS/scores/{CELL}/attack.json",
}
LIMITS = Limits(memory_mb=8000, minutes=480)


def depends(study: Study, cell: Cell) -> Dependencies:
    embeddings = files_of(step("embed", cell=cell), "embeddings")
    families = ("metrics", "embedding_metrics")
    metrics = [plugins.load(family, name) for family in families for name in plugins.names(family)]
    return Dependencies(
        files=inputs.photos(cell.dataset) | inputs.model(study, cell) | embeddings,
        settings={
            "attacked": study.attacked.model_dump(),
            "precision": study.evaluation.precision,
            **inputs.network_settings(study, cell),
        },
        code=[*(plugins.load("attacks", name) for name in study.attacked.attacks), *metrics],
    )


def cost(study: Study, cell: Cell) -> Cost:
    """Every test photo there and back in every step of every attack, and once more to be embedded."""
    test, unknown = photos_of(study, cell.dataset, "test")
    settings = study.attacked
    times = len(settings.attacks) * sum(epsilon > 0 for epsilon in settings.epsilon)
    # The way back to the photos alone, as in training (``training/methods/_adversarial.py``).
    there, back = (settings.steps + 1) * test * times, -(-2 * settings.steps * test * times // 3)
    return Cost(test, (there, there), (back, back), unknown=unknown)


def attack(study: Study, cell: Cell, device: str = "auto") -> None:
    """Score a model under adversarial attacks. Attacked test photos are scored alone and in the clean gallery."""
    import pandas as pd

    from bgbias.evaluation import attack_eval, embeddings, scores
    from bgbias.models.inference import for_inference

    settings = study.attacked
    chosen = plan.require_setting(study, "attacked", "attacks", "names no attacks")
    with records.node(study, step("attack", cell=cell)) as record:
        model, album, how = open_model(study, cell, record.on(device))
        model = for_inference(model)
        photos = album.evaluation(album.table("test"), frozenset(), "test")
        before = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        clean = before.views[CLEAN, 0]
        judged = [
            {"view": name, "draw": draw} | _metrics(vectors, before.labels)
            for (name, draw), vectors in before.views.items()
            if name in (CLEAN, RANDOM_BACKGROUND)
        ]
        tables = []
        every = list(itertools.product(chosen, settings.epsilon))
        for attack, epsilon in progress.track(every, len(every), f"attacks on {cell.name}"):
            strength = Strength(epsilon=epsilon, steps=settings.steps)
            name = f"{attack}@{epsilon:g}"  # as tables have it
            vectors = attack_eval.embed_attacked(model, photos, clean, attack, strength, how)
            after = replace(before, views={(CLEAN, 0): vectors}, donors={})
            attacked = scores.score_queries(after, {"attack": name}, clean)
            tables.append(attacked)
            judged.append({"view": name, "draw": 0} | _metrics(vectors, before.labels))
            everything = attacked[attacked["setting"] == "symmetric"]
            label = name.replace(":", "_").replace("@", "_")
            record.metrics |= {
                f"{m}_{label}": float(everything[m].mean()) for m in ("map_at_r", "precision_at_1")
            }
        record.write("attacked", pd.concat(tables, ignore_index=True))
        record.write("attacked_metrics", pd.DataFrame(judged))


def _metrics(embeddings: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    family = "embedding_metrics"
    return {m: plugins.load(family, m).of_embeddings(embeddings, labels) for m in plugins.names(family)}
