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
            options(step),
        shell:
            RULES.command(step)


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
        options("train"),
    shell:
        RULES.command("train")


rule models:
    input:
        RULES.records("textures", "pretrain", "train"),
