"""The table of comparisons."""

import time

from benchmarks import (
    Comparison,
    _precision,
    _retrieval,
    _training,
    _views,
    attribution,
    demo_share,
    growth,
    known_files,
    masks,
    memory,
    mirror,
    node_start,
    paper_grid,
    planning,
)

CPU, CUDA, BOTH = ("cpu",), ("cuda",), ("cpu", "cuda")

CASES = {
    "attack_step": Comparison(
        "one step of an attack on a batch of 32 photos, MobileNetV2 at 224, batch norms of its own",
        *(BOTH, _training.attack_contenders, _training.judge_attack),
    ),
    "attribution": Comparison(
        "attribution score, BN-Inception at 227, 25 noisy copies a photo",
        *(BOTH, attribution.contenders, attribution.judge),
    ),
    "conditions": Comparison(
        "every condition but cue_conflict, five draws of those with chance, MobileNetV2 at 224",
        *(BOTH, _views.conditions_contenders, _views.judge_conditions),
    ),
    "demo_share": Comparison(
        "the demo, three training seeds, all cores, with MLflow's mirror",
        *(CPU, demo_share.contenders, demo_share.judge),
        rounds=1,
    ),
    "evaluation_views": Comparison(
        "1 clean and 5 corrupted views of a photo, BN-Inception at 227, one thread, no model",
        *(CPU, _views.evaluation_contenders, _views.judge_evaluation),
        threads=1,
    ),
    # A second thread pays only from some size on, and would pass for slower growth, as would other work on the machine, but for
    # seconds of the processor.
    "growth": Comparison(
        "cost against size, in seconds of one core",
        *(CPU, growth.contenders, growth.judge),
        threads=1,
        clock=time.process_time,
    ),
    "heldout": Comparison(
        "embedding a test set clean and before 5 draws of backgrounds, MobileNetV2 at 224",
        *(BOTH, _views.heldout_contenders, _views.judge_heldout),
    ),
    "kept_pictures": Comparison(
        "a photo at short side 256, from where it is kept; one thread",
        *(CPU, _views.kept_contenders, _views.judge_kept),
        threads=1,
    ),
    "known_files": Comparison(
        "knowing 150,000 photos by their content when nothing has changed",
        *(CPU, known_files.contenders, known_files.judge),
        threads=1,
    ),
    "many_cells": Comparison(
        "trainings of a small model (MobileNetV2 at 64 pixels): side by side, or one after the other",
        *(BOTH, _training.cells_contenders, _training.judge_cells),
        rounds=2,
    ),
    "mask_precision": Comparison(
        "masks of the trained U²-Net-p at 320 pixels in bf16 and in float32",
        *(BOTH, _precision.mask_contenders, _precision.judge_masks),
        rounds=1,
    ),
    "masks": Comparison("U²-Net masks at 320 pixels, full architecture", BOTH, masks.contenders, masks.judge),
    "memory": Comparison(
        "the most memory of a step, 60,502 test photos of 11,331 classes, 128 numbers, clean and 5 draws, smallest network",
        *(CPU, memory.contenders, memory.judge),
        threads=1,
        rounds=1,
    ),
    "mirror": Comparison(
        "the mirror into MLflow, of one core", CPU, mirror.contenders, mirror.judge, threads=1, rounds=1
    ),
    "node_start": Comparison(
        "a step's overhead", CPU, node_start.contenders, node_start.judge, threads=1, rounds=7
    ),
    "paper_grid": Comparison(
        "the grid `paper` with 5 seeds on one GPU, a step at a time",
        *(CUDA, paper_grid.contenders, paper_grid.judge),
        rounds=3,
    ),
    "planning": Comparison(
        "a dry run of `paper` with 5 seeds (more than 600 steps) and of many cells, and `dvc repro` of what is current",
        *(CPU, planning.contenders, planning.judge),
        threads=1,
        rounds=3,
    ),
    "precision": Comparison(
        "bf16 and float32: ImageNet's MobileNetV2 at 224 with a random embedding layer, birds of 50 classes, a disc as mask",
        *(BOTH, _precision.contenders, _precision.judge),
        rounds=1,
    ),
    "retrieval": Comparison(
        "MAP@R, P@1 and RP at SOP's size (60,502 x 128, 11,316 classes)",
        *(BOTH, _retrieval.contenders, _retrieval.judge),
        rounds=3,
        memory=(_retrieval.OURS, _retrieval.PEER),
    ),
    "retrieval_million": Comparison(
        "4,096 queries among a million photos of 128 numbers",
        *(BOTH, _retrieval.million_contenders, _retrieval.judge_million),
        rounds=2,
        memory=(_retrieval.OURS,),
    ),
    "training_batches": Comparison(
        "training batches with background replacement, BN-Inception at 227, one thread",
        *(CPU, _views.batches_contenders, _views.judge_batches),
        threads=1,
    ),
    "training_gpu": Comparison(
        "training steps with background replacement, BN-Inception at 227, contrastive loss",
        *(CUDA, _training.gpu_contenders, _training.judge_gpu),
        rounds=3,
    ),
    "training_step": Comparison(
        "training steps on photos, MobileNetV2 at 224, batch 32, contrastive loss",
        *(CPU, _training.step_contenders, _training.judge_step),
    ),
}
