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
    params:
        options=options("collect"),
    log:
        f"{LOGS}/{STUDY.grid}/collect.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias collect {params.options} > {log} 2>&1"


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
    wildcard_constraints:
        table=r"table\d+",  # which of them the grid has, report.tables knows
    params:
        options=options("table"),
    log:
        f"{LOGS}/{STUDY.grid}/{{table}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias table {wildcards.table} {params.options} > {log} 2>&1"


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
    params:
        options=options("figure"),
    log:
        f"{LOGS}/{STUDY.grid}/figure_{{figure}}.log",
    resources:
        mem_mb=growing(4000),
        runtime=growing(60),
    conda:
        "../envs/bgbias.yaml"
    shell:
        "python -m bgbias figure {wildcards.figure} {params.options} > {log} 2>&1"


rule table1:
    input:
        PATHS.at("table_csv", table="table1"),
        PATHS.at("table_record", table="table1"),


rule table2:
    input:
        PATHS.at("table_csv", table="table2"),
        PATHS.at("table_record", table="table2"),


rule table3:
    input:
        PATHS.at("table_csv", table="table3"),
        PATHS.at("table_record", table="table3"),


rule report:
    input:
        [PATHS.at(f"table_{form}", table=t) for t in tables.wanted(STUDY) for form in ("csv", "html")],
        [PATHS.at("figure_png", figure=f) for f in figures.wanted(STUDY)],
        records_of("table", "figure"),
