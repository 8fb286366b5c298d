# Scores of all cells -> tidy results -> tables and figures.


rule collect:
    input:
        reads("collect"),
    output:
        results=PATHS.results,
        queries=PATHS.all_queries,
        attribution=PATHS.all_attribution,
        masks=PATHS.mask_report,
        record=PATHS.collect_record,
    log:
        f"{LOGS}/{STUDY.grid}/collect.log",
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        options=options("collect"),
    shell:
        "python -m bgbias collect {params.options} > {log:q} 2>&1"


rule table:
    input:
        reads("table"),
    output:
        csv=PATHS.table_csv,
        md=PATHS.table_md,
        tex=PATHS.table_tex,
        html=report(
            PATHS.table_html,
            caption="../report/table.rst",
            category="Tables",
            labels={"table": "{table}"},
        ),
        yaml=PATHS.table_yaml,
        record=PATHS.table_record,
    log:
        f"{LOGS}/{STUDY.grid}/{{table}}.log",
    wildcard_constraints:
        table=r"table\d+",  # which of them the grid has, report.tables knows
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        options=options("table"),
    shell:
        "python -m bgbias table {wildcards.table:q} {params.options} > {log:q} 2>&1"


rule figure:
    input:
        reads("figure"),
    output:
        pdf=PATHS.figure_pdf,
        png=report(
            PATHS.figure_png,
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
        record=PATHS.figure_record,
    log:
        f"{LOGS}/{STUDY.grid}/figure_{{figure}}.log",
    conda:
        "../envs/bgbias.yaml"
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    params:
        options=options("figure"),
    shell:
        "python -m bgbias figure {wildcards.figure:q} {params.options} > {log:q} 2>&1"


for target in tables.wanted(STUDY):

    rule:
        name:
            target
        input:
            PATHS.at("table_csv", table=target),
            PATHS.at("table_record", table=target),


rule report:
    input:
        [PATHS.at(f"table_{form}", table=t) for t in tables.wanted(STUDY) for form in ("csv", "html")],
        [PATHS.at("figure_png", figure=f) for f in figures.wanted(STUDY)],
        records_of("table", "figure"),
