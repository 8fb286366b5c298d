# Table, photos (and, where the method needs them, masks, backgrounds and textures) -> one trained model a cell; and the weights
# to start from, where they are fetched or learned from photos without labels.


rule weights:
    input:
        reads("weights"),
    output:
        weights=PATHS.weights,
        record=PATHS.weights_record,
    log:
        f"{LOGS}/weights/{{owner}}.log",
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        options=options("weights"),
    shell:
        "python -m bgbias weights {wildcards.owner:q} {params.options} > {log:q} 2>&1"


rule textures:
    input:
        reads("textures"),
    output:
        textures=PATHS.textures,
        record=PATHS.textures_record,
    log:
        f"{LOGS}/{STUDY.grid}/textures/{{dataset}}/{{backbone}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    threads: threads_by_photos
    resources:
        mem_mb=growing(4000),
        runtime=growing(720),
    params:
        options=options("textures"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias textures {wildcards.dataset:q} {wildcards.backbone:q} {params.options}"
        " > {log:q} 2>&1"


rule pretrain:
    input:
        reads("pretrain"),
    output:
        weights=PATHS.pretrained,
        history=PATHS.pretraining_history,
        record=PATHS.pretrain_record,
    log:
        f"{LOGS}/{STUDY.grid}/pretrain/{{backbone}}/{{dataset}}/seed{{run}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(1440),
    params:
        options=options("pretrain"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias pretrain {wildcards.backbone:q} {wildcards.dataset:q} {wildcards.run:q}"
        " {params.options} > {log:q} 2>&1"


rule train:
    input:
        reads("train"),
    output:
        model=PATHS.model,
        history=PATHS.history,
        record=PATHS.train_record,
    log:
        f"{LOGS}/{STUDY.grid}/train/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    # On a CPU, small models train faster side by side than with many threads each.
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(1440),
    params:
        options=options("train"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias train {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule models:
    input:
        records_of("textures", "pretrain", "train"),
