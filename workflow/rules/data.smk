# Photos and backgrounds: files -> table and photo store; pools of background photos; masks of objects. What many steps wait for
# comes first: `priority`.


for step in ("fetch", "gather", "propose"):

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


rule index:
    input:
        reads("index"),
    output:
        **RULES.outputs("index"),
    log:
        RULES.log("index"),
    priority: 1
    conda:
        ENVIRONMENT
    threads: threads("index")
    resources:
        **limits("index"),
    params:
        command("index"),
    shell:
        BGBIAS


rule backgrounds:
    input:
        reads("backgrounds"),
    output:
        **RULES.outputs("backgrounds"),
    log:
        RULES.log("backgrounds"),
    priority: 1
    conda:
        ENVIRONMENT
    threads: threads("backgrounds")
    resources:
        **limits("backgrounds"),
    params:
        command("backgrounds"),
    shell:
        BGBIAS


rule masks:
    input:
        reads("masks"),
    output:
        **RULES.outputs("masks"),
    log:
        RULES.log("masks"),
    priority: 1
    conda:
        ENVIRONMENT
    threads: threads("masks")
    resources:
        **limits("masks"),
    params:
        command("masks"),
    shell:
        BGBIAS


rule data:
    input:
        RULES.records("index", "backgrounds"),


rule all_masks:
    input:
        RULES.records("masks"),
