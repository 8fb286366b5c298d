# Photos and backgrounds: archive -> table and photo store; pools of background photos.


def fetched(wildcards):
    """A dataset's archive, or nothing for one that is rendered."""
    return list(planned(plan.inputs, STUDY, "index", dataset=wildcards.dataset).values())


rule fetch:
    output:
        archive=PATHS.archive,
        record=PATHS.fetch_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "fetch", dataset=w.dataset),
    log:
        f"{STUDY.paths.work}/logs/fetch/{{dataset}}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias fetch {wildcards.dataset} {GRID} --expect {params.digest} > {log} 2>&1"


rule index:
    input:
        fetched,
    output:
        table=PATHS.table,
        photos=PATHS.photos,
        truth=PATHS.truth,
        excluded=PATHS.excluded,
        record=PATHS.index_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "index", dataset=w.dataset),
    log:
        f"{STUDY.paths.work}/logs/index/{{dataset}}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias index {wildcards.dataset} {GRID} --expect {params.digest} > {log} 2>&1"


rule backgrounds:
    output:
        train=PATHS.pool.replace("{role}", "train"),
        val=PATHS.pool.replace("{role}", "val"),
        test=PATHS.pool.replace("{role}", "test"),
        table=PATHS.pool_table,
        record=PATHS.backgrounds_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "backgrounds", pool=w.pool),
    log:
        f"{STUDY.paths.work}/logs/backgrounds/{{pool}}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias backgrounds {wildcards.pool} {GRID} --expect {params.digest} > {log} 2>&1"


rule data:
    input:
        [PATHS.at("table", dataset=d) for d in dict.fromkeys(c.dataset for c in CELLS)],
        [PATHS.at("pool_table", pool=p) for p in dict.fromkeys(STUDY.datasets[c.dataset].backgrounds for c in CELLS)],
