# Model, test photos, masks, backgrounds -> embeddings -> scores; and the attribution score.


rule embed:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "embed", cell=cell(w)).values()),
    output:
        embeddings=PATHS.embeddings,
        record=PATHS.embed_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "embed", cell=cell(w)),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/embed/{paths.CELL}.log",
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m bgbias embed {wildcards.dataset} {wildcards.backbone} {wildcards.loss}"
        " {wildcards.method} --seed {wildcards.seed} {GRID} --expect {params.digest} > {log} 2>&1"


rule score:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "score", cell=cell(w)).values()),
    output:
        scores=PATHS.scores,
        queries=PATHS.queries,
        record=PATHS.score_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "score", cell=cell(w)),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/score/{paths.CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m bgbias score {wildcards.dataset} {wildcards.backbone} {wildcards.loss}"
        " {wildcards.method} --seed {wildcards.seed} {GRID} --expect {params.digest} > {log} 2>&1"


rule attribute:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "attribute", cell=cell(w)).values()),
    output:
        attribution=PATHS.attribution,
        maps=PATHS.maps,
        record=PATHS.attribute_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "attribute", cell=cell(w)),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/attribute/{paths.CELL}.log",
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m bgbias attribute {wildcards.dataset} {wildcards.backbone} {wildcards.loss}"
        " {wildcards.method} --seed {wildcards.seed} {GRID} --expect {params.digest} > {log} 2>&1"


rule scores:
    input:
        [PATHS.at("scores", **c.wildcards) for c in CELLS],
        [PATHS.at("attribution", **c.wildcards) for c in CELLS if plan.trains(c)],
