# Model, test photos, masks, backgrounds -> embeddings, scores and attribution scores of each model, by one job. It leaves alone what
# is up to date, so Snakemake must not delete that (`update`). And what else a grid may ask of its models, a job each.


rule evaluate:
    input:
        reads("evaluate"),
    output:
        **{name: update(path) for name, path in RULES.outputs("evaluate").items()},
    log:
        RULES.log("evaluate"),
    wildcard_constraints:
        method=RULES.methods(is_asked=True),
    conda:
        ENVIRONMENT
    threads: threads("evaluate")
    resources:
        **limits("evaluate"),
    params:
        command("evaluate"),
    shell:
        BGBIAS


rule evaluate_untrained:
    input:
        reads("evaluate_untrained"),
    output:
        **{name: update(path) for name, path in RULES.outputs("evaluate_untrained").items()},
    log:
        RULES.log("evaluate_untrained"),
    wildcard_constraints:
        method=RULES.methods(is_asked=False),
    conda:
        ENVIRONMENT
    threads: threads("evaluate_untrained")
    resources:
        **limits("evaluate_untrained"),
    params:
        command("evaluate_untrained"),
    shell:
        BGBIAS


for measure in ("segment", "cross", "sanity", "embed_training", "probe", "remask", "cure", "attack"):

    rule:
        name:
            measure
        input:
            reads(measure),
        output:
            **RULES.outputs(measure),
        log:
            RULES.log(measure),
        conda:
            ENVIRONMENT
        threads: threads(measure)
        resources:
            **limits(measure),
        params:
            command(measure),
        shell:
            BGBIAS


rule scores:
    input:
        RULES.records(
            "score", "attribute", "segment", "cross", "cure", "attack", "sanity", "probe", "collect"
        ),
