# Photos -> masks of their objects, with a table of mask quality.


def masking_threads(wildcards):
    """One for few photos: a job of several begins when so many cores are free at once, and short ones wait longer than they gain."""
    photos, unknown = planned(forecast.photos_of, STUDY, wildcards.dataset)
    return 4 if HAS_GPU or unknown or photos > 2000 else 1


rule masks:
    input:
        reads("masks"),
    output:
        masks=PATHS.masks,
        table=PATHS.mask_table,
        record=PATHS.masks_record,
    log:
        f"{LOGS}/masks/{{dataset}}/{{masker}}.log",
    priority: 1
    conda:
        "../envs/bgbias.yaml"
    threads: masking_threads
    resources:
        gpu=HAS_GPU,
        mem_mb=growing(8000),
        runtime=growing(720),
    params:
        options=options("masks"),
    shell:
        "OMP_NUM_THREADS={threads} python -m bgbias masks {wildcards.dataset:q} {wildcards.masker:q} {params.options} > {log:q} 2>&1"


rule all_masks:
    input:
        records_of("masks"),
