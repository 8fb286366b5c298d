# Photos and backgrounds: files -> table and photo store; pools of background photos.


rule fetch:
    input:
        reads("fetch"),
    output:
        file=PATHS.part,
        record=PATHS.fetch_record,
    params:
        options=options("fetch"),
    log:
        f"{LOGS}/fetch/{{dataset}}/{{part}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(720),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias fetch {wildcards.dataset} {wildcards.part} {params.options} > {log} 2>&1"


rule index:
    input:
        reads("index"),
    output:
        table=PATHS.table,
        photos=PATHS.photos,
        truth=PATHS.truth,
        excluded=PATHS.excluded,
        record=PATHS.index_record,
    params:
        options=options("index"),
    log:
        f"{LOGS}/index/{{dataset}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias index {wildcards.dataset} {params.options} > {log} 2>&1"


rule gather:
    input:
        reads("gather"),
    output:
        photos=PATHS.gathered,
        record=PATHS.gather_record,
    params:
        options=options("gather"),
    log:
        f"{LOGS}/gather/{{pool}}.log",
    resources:
        mem_mb=growing(2000),
        runtime=growing(720),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias gather {wildcards.pool} {params.options} > {log} 2>&1"


rule propose:
    input:
        reads("propose"),
    output:
        proposal=PATHS.proposal,
        sheet=PATHS.proposal_sheet,
        record=PATHS.propose_record,
    params:
        options=options("propose"),
    log:
        f"{LOGS}/propose/{{pool}}.log",
    threads: 4
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(480),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias propose {wildcards.pool} {params.options} > {log} 2>&1"


rule backgrounds:
    input:
        reads("backgrounds"),
    output:
        train=PATHS.train_pool,
        val=PATHS.val_pool,
        test=PATHS.test_pool,
        table=PATHS.pool_table,
        record=PATHS.backgrounds_record,
    params:
        options=options("backgrounds"),
    log:
        f"{LOGS}/backgrounds/{{pool}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias backgrounds {wildcards.pool} {params.options} > {log} 2>&1"


rule data:
    input:
        records_of("index", "backgrounds"),
