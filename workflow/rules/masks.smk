# Photos -> masks of their objects, with a table of mask quality.


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
    threads: threads_by_photos
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
