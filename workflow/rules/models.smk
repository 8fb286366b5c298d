# Table, photos (and, where the method needs them, masks and backgrounds) -> one trained model a cell; and the weights to start
# from, where they are fetched.


rule weights:
    input:
        reads("weights"),
    output:
        weights=PATHS.weights,
        record=PATHS.weights_record,
    params:
        options=options("weights"),
    log:
        f"{LOGS}/weights/{{owner}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias weights {wildcards.owner} {params.options} > {log} 2>&1"


rule train:
    input:
        reads("train"),
    output:
        model=PATHS.model,
        history=PATHS.history,
        record=PATHS.train_record,
    params:
        options=options("train"),
    log:
        f"{LOGS}/{STUDY.grid}/train/{CELL}.log",
    # On a CPU, small models train faster side by side than with many threads each.
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(1440),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias train {wildcards.dataset} {wildcards.backbone} {wildcards.loss}"
        " {wildcards.method} --seed {wildcards.seed} {params.options} > {log} 2>&1"


rule models:
    input:
        records_of("train"),
