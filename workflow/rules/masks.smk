# Photos -> masks of their objects, with a table of mask quality.


rule masks:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "masks", dataset=w.dataset, masker=w.masker).values()),
    output:
        masks=PATHS.masks,
        table=PATHS.mask_table,
        record=PATHS.masks_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "masks", dataset=w.dataset, masker=w.masker),
    log:
        f"{STUDY.paths.work}/logs/masks/{{dataset}}/{{masker}}.log",
    threads: 4
    resources:
        gpu=HAS_GPU,
    conda:
        "../envs/bgbias.yaml"
    shell:
        "OMP_NUM_THREADS={threads} {PYTHON} -m bgbias masks {wildcards.dataset} {wildcards.masker} {GRID}"
        " --expect {params.digest} > {log} 2>&1"


rule all_masks:
    input:
        [
            PATHS.at("mask_table", dataset=d, masker=STUDY.datasets[d].masker)
            for d in dict.fromkeys(c.dataset for c in CELLS)
        ],
