"""From photos to the paper's two tables: `snakemake --cores all`.

    fetch -> index -> masks ----------+-> embed -> score ----+
                  \-> train ----------+-> attribute ---------+-> collect -> table, figure
    backgrounds -----/                                       (MLflow is told while it runs)

params.yaml holds the study, src/bgbias/engine/digests.py what each node reads, src/bgbias/study/paths.py where everything lies.
"""


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/masks.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/scores.smk"
include: "workflow/rules/report.smk"


rule all:
    default_target: True
    input:
        rules.report.input,


onstart:
    mirror_to_mlflow()


# Snakemake does not know yet that this is a dry run; short flags may come together (-np).
if any(re.fullmatch("-[a-zA-Z]*n[a-zA-Z]*|--dry-?run", word) for word in sys.argv[1:]):
    say(planned(forecast.told, STUDY))
