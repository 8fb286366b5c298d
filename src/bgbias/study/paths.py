"""Every artefact as one pattern, shared by Snakemake (which fills the braces from wildcards) and Python (which formats them).

The roots come from ``paths`` in params.yaml; nothing else in the project spells a folder of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CELL = "{dataset}/{backbone}/{loss}/{method}/seed{seed}"


@dataclass(frozen=True)
class Paths:
    """Patterns below the roots; ``grid`` is filled in, everything else stays a wildcard."""

    raw: str
    downloads: str
    checksums: str
    work: str
    runs: str
    report: str
    grid: str

    def __getattr__(self, name: str) -> str:
        """The pattern called ``name`` (see PATTERNS)."""
        try:
            pattern = PATTERNS[name]
        except KeyError:
            raise AttributeError(name) from None
        roots = {
            "RAW": self.raw,
            "WORK": self.work,
            "RUNS": f"{self.runs}/{self.grid}",
            "REPORT": f"{self.report}/{self.grid}",
        }
        root, _, rest = pattern.partition("/")
        return f"{roots[root]}/{rest}"

    def at(self, pattern: str, /, **wildcards: object) -> Path:
        """One artefact: the pattern with its wildcards filled in."""
        return Path(getattr(self, pattern).format(**wildcards))


PATTERNS = {
    # fetch, index
    "part": "RAW/{dataset}/{part}",
    "fetch_record": "RAW/{dataset}/{part}.json",
    # weights of a network (backbones/<name>, maskers/<name>)
    "weights": "RAW/weights/{owner}.safetensors",
    "weights_record": "RAW/weights/{owner}.json",
    "table": "WORK/datasets/{dataset}/images.csv",
    "photos": "WORK/datasets/{dataset}/photos.zip",
    "truth": "WORK/datasets/{dataset}/truth.zip",
    "excluded": "WORK/datasets/{dataset}/excluded.csv",
    "index_record": "WORK/datasets/{dataset}/index.json",
    # masks, backgrounds
    "masks": "WORK/masks/{dataset}/{masker}/masks.zip",
    "mask_table": "WORK/masks/{dataset}/{masker}/masks.csv",
    "masks_record": "WORK/masks/{dataset}/{masker}/masks.json",
    "gathered": "WORK/backgrounds/{pool}/gathered.zip",
    "gather_record": "WORK/backgrounds/{pool}/gathered.json",
    "proposal": "WORK/backgrounds/{pool}/proposal.csv",
    "proposal_sheet": "WORK/backgrounds/{pool}/proposal.png",
    "propose_record": "WORK/backgrounds/{pool}/proposal.json",
    "pool": "WORK/backgrounds/{pool}/{role}.zip",
    "pool_table": "WORK/backgrounds/{pool}/backgrounds.csv",
    "backgrounds_record": "WORK/backgrounds/{pool}/backgrounds.json",
    # one cell
    "model": f"RUNS/models/{CELL}/model.safetensors",
    "history": f"RUNS/models/{CELL}/history.csv",
    "train_record": f"RUNS/models/{CELL}/run.json",
    "embeddings": f"RUNS/scores/{CELL}/embeddings.npz",
    "embed_record": f"RUNS/scores/{CELL}/embed.json",
    "scores": f"RUNS/scores/{CELL}/scores.csv",
    "queries": f"RUNS/scores/{CELL}/queries.parquet",
    "score_record": f"RUNS/scores/{CELL}/score.json",
    "attribution": f"RUNS/scores/{CELL}/attribution.csv",
    "maps": f"RUNS/scores/{CELL}/attribution.npz",
    "attribute_record": f"RUNS/scores/{CELL}/attribute.json",
    "segmentation": f"RUNS/scores/{CELL}/segmentation.csv",
    "segments": f"RUNS/scores/{CELL}/segmentation.npz",
    "segment_record": f"RUNS/scores/{CELL}/segment.json",
    # report of a grid
    "results": "REPORT/results.csv",
    "all_queries": "REPORT/queries.parquet",
    "all_attribution": "REPORT/attribution.parquet",
    "mask_report": "REPORT/masks.csv",
    "collect_record": "REPORT/collect.json",
    "report_table": "REPORT/{table}.{format}",
    "table_record": "REPORT/{table}.json",
    "figures": "REPORT/figures/{figure}.{format}",
    "figures_record": "REPORT/figures/{figure}.json",
    # unfinished work, outside declared outputs: Snakemake deletes those of a failed job
    "partial": f"WORK/partial/{{grid}}/{CELL}/checkpoint.pt",
    "partial_history": f"WORK/partial/{{grid}}/{CELL}/history.csv",
    "prepared": "WORK/prepared/{owner}",
    "mask_cache": "WORK/mask_cache/{dataset}/{masker}/{key}",
    "running": "WORK/running/{name}.json",
    "vitals": "WORK/running/{name}.csv",
    "locks": "WORK/locks/{name}.lock",
    "gpu_slots": "WORK/gpu-slots",
    "logs": "WORK/logs/{name}.log",
    # an input of every rule, older than all outputs but those of another plan (see freshness.py)
    "changed_plan": "WORK/changed_plan",
}
