# Photos and backgrounds: files -> table and photo store; pools of background photos. What many nodes wait for comes first: `priority`.


rule fetch:
    input:
        reads("fetch"),
    output:
        file=PATHS.part,
        record=PATHS.fetch_record,
    log:
        f"{LOGS}/fetch/{{dataset}}/{{part}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(720),
    params:
        options=options("fetch"),
    shell:
        "python -m bgbias fetch {wildcards.dataset:q} {wildcards.part:q} {params.options} > {log:q} 2>&1"


rule index:
    input:
        reads("index"),
    output:
        table=PATHS.table,
        photos=PATHS.photos,
        truth=PATHS.truth,
        excluded=PATHS.excluded,
        record=PATHS.index_record,
    log:
        f"{LOGS}/index/{{dataset}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        options=options("index"),
    shell:
        "python -m bgbias index {wildcards.dataset:q} {params.options} > {log:q} 2>&1"


rule gather:
    input:
        reads("gather"),
    output:
        photos=PATHS.gathered,
        record=PATHS.gather_record,
    log:
        f"{LOGS}/gather/{{pool}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(2000),
        runtime=growing(720),
    params:
        options=options("gather"),
    shell:
        "python -m bgbias gather {wildcards.pool:q} {params.options} > {log:q} 2>&1"


rule propose:
    input:
        reads("propose"),
    output:
        proposal=PATHS.proposal,
        sheet=PATHS.proposal_sheet,
        record=PATHS.propose_record,
    log:
        f"{LOGS}/propose/{{pool}}.log",
    conda:
        "../envs/bgbias.yaml"
    threads: 4
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(480),
    params:
        options=options("propose"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias propose {wildcards.pool:q} {params.options} > {log:q} 2>&1"


rule backgrounds:
    input:
        reads("backgrounds"),
    output:
        train=PATHS.train_pool,
        val=PATHS.val_pool,
        test=PATHS.test_pool,
        table=PATHS.pool_table,
        record=PATHS.backgrounds_record,
    log:
        f"{LOGS}/backgrounds/{{pool}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(240),
    params:
        options=options("backgrounds"),
    shell:
        "python -m bgbias backgrounds {wildcards.pool:q} {params.options} > {log:q} 2>&1"


rule data:
    input:
        records_of("index", "backgrounds"),
