# Table, photos (and, where the method needs them, masks, backgrounds and textures) -> one trained model a cell; and the weights
# to start from, where they are fetched or learned from photos without labels.


for step in ("weights", "textures", "pretrain"):

    rule:
        name:
            step
        input:
            reads(step),
        output:
            **RULES.outputs(step),
        log:
            RULES.log(step),
        priority: 1
        conda:
            ENVIRONMENT
        threads: threads(step)
        resources:
            **limits(step),
        params:
            command(step),
        shell:
            BGBIAS


rule train:
    input:
        reads("train"),
    output:
        **RULES.outputs("train"),
    log:
        RULES.log("train"),
    conda:
        ENVIRONMENT
    threads: threads("train")
    resources:
        **limits("train"),
    params:
        command("train"),
    shell:
        BGBIAS


rule models:
    input:
        RULES.records("textures", "pretrain", "train"),
