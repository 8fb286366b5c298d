# Scores of all cells -> tidy results -> tables and figures.


rule collect:
    input:
        list(planned(plan.inputs, STUDY, "collect").values()),
    output:
        results=PATHS.results,
        queries=PATHS.all_queries,
        attribution=PATHS.all_attribution,
        masks=PATHS.mask_report,
        record=PATHS.collect_record,
    params:
        digest=planned(plan.digest, STUDY, "collect"),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/collect.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias collect {GRID} --expect {params.digest} > {log} 2>&1"


rule table:
    input:
        list(planned(plan.inputs, STUDY, "table", name="table1").values()),
    output:
        csv=PATHS.report_table.replace("{format}", "csv"),
        md=PATHS.report_table.replace("{format}", "md"),
        tex=PATHS.report_table.replace("{format}", "tex"),
        record=PATHS.table_record,
    wildcard_constraints:
        table="table[12]",
    params:
        digest=lambda w: planned(plan.digest, STUDY, "table", name=w.table),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/{{table}}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias table {wildcards.table} {GRID} --expect {params.digest} > {log} 2>&1"


rule figure:
    input:
        lambda w: list(planned(plan.inputs, STUDY, "figure", name=w.figure).values()),
    output:
        pdf=PATHS.figures.replace("{format}", "pdf"),
        png=PATHS.figures.replace("{format}", "png"),
        record=PATHS.figures_record,
    params:
        digest=lambda w: planned(plan.digest, STUDY, "figure", name=w.figure),
    log:
        f"{STUDY.paths.work}/logs/{STUDY.grid}/figure_{{figure}}.log",
    conda:
        "../envs/bgbias.yaml"
    shell:
        "{PYTHON} -m bgbias figure {wildcards.figure} {GRID} --expect {params.digest} > {log} 2>&1"


rule table1:
    input:
        PATHS.at("report_table", table="table1", format="csv"),


rule table2:
    input:
        PATHS.at("report_table", table="table2", format="csv"),


rule report:
    input:
        [PATHS.at("report_table", table=t, format="csv") for t in ("table1", "table2")],
        [PATHS.at("figures", figure=f, format="png") for f in plan.figures(STUDY)],
