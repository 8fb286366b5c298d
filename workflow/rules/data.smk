# Photos and backgrounds: files -> table and photo store; pools of background photos; masks of objects. What many steps wait for
# comes first: `priority`.


rule fetch:
    input:
        reads("fetch"),
    output:
        **RULES.outputs("fetch"),
    log:
        RULES.log("fetch"),
    priority: 1
    conda:
        ENVIRONMENT
    threads: threads("fetch")
    resources:
        **limits("fetch"),
    params:
        options("fetch"),
    shell:
        RULES.command("fetch")


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
        options("index"),
    shell:
        RULES.command("index")


for step in ("gather", "propose"):

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
        options("backgrounds"),
    shell:
        RULES.command("backgrounds")


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
        options("masks"),
    shell:
        RULES.command("masks")


rule data:
    input:
        RULES.records("index", "backgrounds"),


rule all_masks:
    input:
        RULES.records("masks"),
