"""Node: a model's test photos, each on the same backgrounds."""

from bgbias.engine import inputs, records
from bgbias.engine.forecast import FLOAT, Cost, photos_of
from bgbias.engine.node import Dependencies, Limits, files_of, step
from bgbias.nodes._models import open_model
from bgbias.study import CELL, Cell, Study, plan

SUBJECT = ("cell",)
OUTPUTS = {
    "crossed": f"RUNS/scores/{CELL}/crossed.npz",
    "crossed_queries": f"RUNS/scores/{CELL}/crossed.parquet",
    "shares": f"RUNS/scores/{CELL}/shares.csv",
    "cross_record": f"RUNS/scores/{CELL}/cross.json",
}
LIMITS = Limits(memory_mb=8000)


def depends(study: Study, cell: Cell) -> Dependencies:
    photos = inputs.album(study, cell.dataset, {"masks", "backgrounds"}, "test")
    return Dependencies(
        files=photos | inputs.model(study, cell) | files_of(step("embed", cell=cell), "embeddings"),
        settings={
            "crossing": study.crossing.model_dump(),
            "precision": study.evaluation.precision,
            **inputs.network_settings(study, cell),
            **inputs.mask_policy(study),
        },
    )


def cost(study: Study, cell: Cell) -> Cost:
    test, unknown = photos_of(study, cell.dataset, "test")
    images = min(test, study.crossing.objects or 0)
    passes = images * study.crossing.backgrounds
    return Cost(images, (passes, passes), disk=passes * study.train.embedding_dim * FLOAT, unknown=unknown)


def cross(study: Study, cell: Cell, device: str = "auto") -> None:
    """Cross all objects with all backgrounds. Tells what the backgrounds do to a model's retrieval."""
    import pandas as pd

    from bgbias.evaluation import crossing, embeddings
    from bgbias.models.inference import for_inference

    count = plan.require_setting(study, "crossing", "objects", "crosses nothing")
    with records.node(study, step("cross", cell=cell)) as record:
        model, album, how = open_model(study, cell, record.on(device))
        model = for_inference(model)
        photos = album.evaluation(album.table("test"), {"masks", "backgrounds"}, "test")
        objects = crossing.objects(photos, count)
        crossed = crossing.embed(model, photos, objects, study.crossing.backgrounds, how)
        before = embeddings.read(study.files.at("embeddings", **cell.wildcards))
        queries = crossing.score_queries(crossed, before)
        shares = crossing.shares(crossed.vectors)
        crossed.write(record.outputs["crossed"])
        record.write("crossed_queries", queries)
        values = {n: float(getattr(shares, n)) for n in ("object", "background", "interaction")}
        row = values | {"negative": " ".join(shares.negative)}
        record.write("shares", pd.DataFrame([row]))
        record.metrics |= {"objects": len(crossed.ids), "backgrounds": len(crossed.backgrounds)}
        record.metrics |= {f"share_{name}": value for name, value in values.items()}
        record.metrics |= {name: float(queries[name].mean()) for name in ("map_at_r", "cosine")}
