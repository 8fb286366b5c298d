"""Node: the scores of all models of a grid, brought together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bgbias.engine import inputs, records
from bgbias.engine.node import Dependencies, Limits, files_of, step
from bgbias.files.atomic import replacing
from bgbias.files.pictures import is_photo
from bgbias.nodes.masks import summary
from bgbias.study import Study, plan

if TYPE_CHECKING:
    import pandas as pd


ROWS_A_GROUP = 2**20  # as pandas writes them

SUBJECT = ()
OUTPUTS = {
    "results": "REPORT/results.csv",
    "all_queries": "REPORT/queries.parquet",
    "all_attribution": "REPORT/attribution.parquet",
    "mask_report": "REPORT/masks.csv",
    "collect_record": "REPORT/collect.json",
}
LIMITS = Limits(minutes=60)


def depends(study: Study) -> Dependencies:
    """Scores, and which masks are trusted: they are counted."""
    read = inputs.of_models(plan.cells(study), "score", "scores", "queries")
    read |= inputs.of_models(plan.attributed_models(study), "attribute", "attribution")
    for dataset in plan.datasets(study):
        read[f"mask_table {dataset}"] = inputs.masks(study, dataset)["mask_table"]
        index = files_of(step("index", dataset=dataset), "table", "excluded")
        read |= {f"{output} {dataset}": written for output, written in index.items()}
    return Dependencies(read, inputs.mask_policy(study))


def collect(study: Study) -> None:
    """Bring a grid's scores together. Also its values per query, attribution scores and mask statistics."""
    import pandas as pd

    from bgbias.results.rows import together

    files = study.files
    with records.node(study, step("collect")) as record:
        cells = plan.cells(study)
        scores = [pd.read_csv(files.at("scores", **c.wildcards), keep_default_na=False) for c in cells]
        attribution = [
            pd.read_csv(
                files.at("attribution", **c.wildcards), keep_default_na=False, na_values={"score": [""]}
            ).assign(**c.wildcards)
            for c in plan.attributed_models(study)
        ]
        record.write("results", together(scores))
        with replacing(record.outputs["all_queries"]) as temporary:
            write_together([files.at("queries", **c.wildcards) for c in cells], temporary)
        record.write("all_attribution", together(attribution))
        record.write("mask_report", _mask_report(study))
        record.metrics["models"] = len(cells)


def write_together(tables: Sequence[Path], path: Path) -> None:
    """What ``results.rows.together`` makes of these Parquet files, as one file, byte for byte as pandas writes it.

    A few of them are in memory at once: 50 models asked SOP's queries are 33 million rows.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    schemas = [pq.read_schema(table) for table in tables]
    in_words = any(not pa.types.is_integer(schema.field("seed").type) for schema in schemas)
    # Places and metrics of whole rankings, which are floats, are of some datasets alone.
    columns = list(dict.fromkeys(name for schema in schemas for name in schema.names))
    with ExitStack() as stack:
        writer, waiting = None, []
        for table in tables:
            values = pd.read_parquet(table).reindex(columns=columns)
            values["seed"] = values["seed"].astype(str) if in_words else values["seed"]
            waiting.append(pa.Table.from_pandas(values, preserve_index=False))
            writer = writer or stack.enter_context(pq.ParquetWriter(path, waiting[0].schema))
            rest = pa.concat_tables(waiting)
            while rest.num_rows >= ROWS_A_GROUP:
                writer.write_table(rest.slice(0, ROWS_A_GROUP))
                rest = rest.slice(ROWS_A_GROUP)
            waiting = [rest]
        if writer is not None and waiting[0].num_rows:
            writer.write_table(waiting[0])


def _mask_report(study: Study) -> pd.DataFrame:
    """One row a dataset: photos, masks that cannot be trusted, and quality where the truth is known."""
    import pandas as pd

    from bgbias.masks import policy
    from bgbias.photos.table import read_table

    rows = []
    for dataset in plan.datasets(study):
        masker = study.datasets[dataset].masker
        quality = policy.read_mask_table(study.files.at("mask_table", dataset=dataset, masker=masker))
        table = read_table(study.files.at("table", dataset=dataset))
        excluded = pd.read_csv(study.files.at("excluded", dataset=dataset), dtype=str, keep_default_na=False)
        test = set(table.split("test").ids)
        usable = policy.usable(quality, study.mask_policy)
        rows.append(
            {
                "dataset": dataset,
                "masker": masker,
                "photos": len(table),
                "photos_unreadable": sum(map(is_photo, excluded["image_id"])),
                "test_photos": len(test),
                "test_photos_without_trusted_mask": len(test - usable),
            }
            | summary(quality, len(table.used), study)
        )
    return pd.DataFrame(rows)
