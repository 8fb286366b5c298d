# Table, photos (and, where the method needs them, masks and backgrounds) -> one trained model a cell.


rule train:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "train", cell=cell(w)).values()),
    output:
        model=PATHS.model,
        history=PATHS.history,
        record=PATHS.train_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "train", cell=cell(w)),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/train/{paths.CELL}.log",
    # On a CPU, small models train faster side by side than with many threads each.
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m bgbias train {wildcards.dataset} {wildcards.backbone} {wildcards.loss}"
        " {wildcards.method} --seed {wildcards.seed} {GRID} --expect {params.digest} > {log} 2>&1"


rule models:
    input:
        [PATHS.at("model", **c.wildcards) for c in CELLS if plan.trains(c)],
