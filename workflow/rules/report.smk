# Scores of all cells -> tidy results -> tables and figures.


rule collect:
    input:
        reads("collect"),
    output:
        **RULES.outputs("collect"),
    log:
        RULES.log("collect"),
    conda:
        ENVIRONMENT
    threads: threads("collect")
    resources:
        **limits("collect"),
    params:
        command("collect"),
    shell:
        BGBIAS


rule table:
    input:
        reads("table"),
    output:
        csv=PATHS.table_csv,
        md=PATHS.table_md,
        tex=PATHS.table_tex,
        html=report(
            PATHS.table_html, caption="../report/table.rst", category="Tables", labels={"table": "{table}"}
        ),
        yaml=PATHS.table_yaml,
        record=PATHS.table_record,
    log:
        RULES.log("table"),
    wildcard_constraints:
        table=r"table\d+",  # which of them the grid has, report.tables knows
    conda:
        ENVIRONMENT
    threads: threads("table")
    resources:
        **limits("table"),
    params:
        command("table"),
    shell:
        BGBIAS


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
        RULES.log("figure"),
    conda:
        ENVIRONMENT
    threads: threads("figure")
    resources:
        **limits("figure"),
    params:
        command("figure"),
    shell:
        BGBIAS


for target in tables.list_enabled(STUDY):

    rule:
        name:
            target
        input:
            PATHS.at("table_csv", table=target),
            PATHS.at("table_record", table=target),


rule report:
    input:
        [PATHS.at(f"table_{form}", table=t) for t in tables.list_enabled(STUDY) for form in ("csv", "html")],
        [PATHS.at("figure_png", figure=f) for f in figures.list_enabled(STUDY)],
        RULES.records("table", "figure"),
