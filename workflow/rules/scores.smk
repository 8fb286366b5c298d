# Model, test photos, masks, backgrounds -> embeddings -> scores; the attribution score; segmentation, where it is asked for.


rule embed:
    input:
        reads("embed"),
    output:
        embeddings=PATHS.embeddings,
        record=PATHS.embed_record,
    log:
        f"{LOGS}/{STUDY.grid}/embed/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        options=options("embed"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias embed {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule score:
    input:
        reads("score"),
    output:
        scores=PATHS.scores,
        queries=PATHS.queries,
        record=PATHS.score_record,
    log:
        f"{LOGS}/{STUDY.grid}/score/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        options=options("score"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias score {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule attribute:
    input:
        reads("attribute"),
    output:
        attribution=PATHS.attribution,
        maps=PATHS.maps,
        record=PATHS.attribute_record,
    log:
        f"{LOGS}/{STUDY.grid}/attribute/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        options=options("attribute"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias attribute {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule segment:
    input:
        reads("segment"),
    output:
        segmentation=PATHS.segmentation,
        segments=PATHS.segments,
        record=PATHS.segment_record,
    log:
        f"{LOGS}/{STUDY.grid}/segment/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        options=options("segment"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias segment {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule cross:
    input:
        reads("cross"),
    output:
        crossed=PATHS.crossed,
        queries=PATHS.crossed_queries,
        shares=PATHS.shares,
        record=PATHS.cross_record,
    log:
        f"{LOGS}/{STUDY.grid}/cross/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        options=options("cross"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias cross {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule sanity:
    input:
        reads("sanity"),
    output:
        sanity=PATHS.sanity,
        record=PATHS.sanity_record,
    log:
        f"{LOGS}/{STUDY.grid}/sanity/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        options=options("sanity"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias sanity {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule embed_training:
    input:
        reads("embed_training"),
    output:
        embeddings=PATHS.training_embeddings,
        record=PATHS.embed_training_record,
    log:
        f"{LOGS}/{STUDY.grid}/embed_training/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        options=options("embed_training"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias embed_training {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule probe:
    input:
        reads("probe"),
    output:
        probed=PATHS.probed,
        record=PATHS.probe_record,
    log:
        f"{LOGS}/{STUDY.grid}/probe/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        options=options("probe"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias probe {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule remask:
    input:
        reads("remask"),
    output:
        masks=PATHS.seen_masks,
        times=PATHS.remasking,
        record=PATHS.remask_record,
    log:
        f"{LOGS}/{STUDY.grid}/remask/{{dataset}}/{{backbone}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(720),
    params:
        options=options("remask"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias remask {wildcards.dataset:q} {wildcards.backbone:q} {params.options}"
        " > {log:q} 2>&1"


rule cure:
    input:
        reads("cure"),
    output:
        cured=PATHS.cured,
        cures=PATHS.cures,
        record=PATHS.cure_record,
    log:
        f"{LOGS}/{STUDY.grid}/cure/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(240),
    params:
        options=options("cure"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias cure {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule attack:
    input:
        reads("attack"),
    output:
        attacked=PATHS.attacked,
        metrics=PATHS.attacked_metrics,
        record=PATHS.attack_record,
    log:
        f"{LOGS}/{STUDY.grid}/attack/{CELL}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4 if HAS_GPU else 1
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        options=options("attack"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias attack {wildcards.dataset:q} {wildcards.backbone:q} {wildcards.loss:q}"
        " {wildcards.method:q} --seed {wildcards.seed:q} {params.options} > {log:q} 2>&1"


rule scores:
    input:
        records_of("score", "attribute", "segment", "cross", "cure", "attack", "sanity", "probe", "collect"),
