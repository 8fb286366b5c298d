"""A study whose nodes have next to nothing to do."""

from __future__ import annotations

from pathlib import Path

# Its first model, and what is made before any.
CELL = ("toys", "tiny", "contrastive", "plain")
BEFORE = (("index", "toys"), ("masks", "toys"), ("backgrounds", "scenes"))
SMALLEST = """
grid: smallest
datasets:
  toys:
    {{kind: toy, masker: ground_truth, backgrounds: scenes,
      options: {{size: 32, train_classes: 2, val_classes: 2, test_classes: 2, photos_per_class: 4}}}}
maskers: {{ground_truth: {{kind: ground_truth}}}}
backgrounds: {{scenes: {{train: {{toy_scenes: 2}}, val: {{toy_scenes: 2}}, test: {{toy_scenes: 2}}}}}}
backbones: {{tiny: {{}}}}
losses: {{contrastive: {{default: {{pos_margin: 0.0, neg_margin: 0.5}}}}}}
train: {{batch_size: 8, iterations_per_epoch: 1, max_epochs: 1, embedding_dim: 8, freeze_batch_norm: false}}
evaluation: {{draws: 1}}
attribution: {{images: 1, samples: 1}}
grids:
  smallest:
    cells:
      - {{datasets: [toys], backbones: [tiny], losses: [contrastive], methods: [plain, bgaugment], seeds: {seeds}}}
"""


def write(folder: Path, seeds: int = 1) -> Path:
    """Its params.yaml in ``folder``, for the seeds 0, 1, ..."""
    path = folder / "params.yaml"
    path.write_text(SMALLEST.format(seeds=list(range(seeds))), encoding="utf-8")
    return path
