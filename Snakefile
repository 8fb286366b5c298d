"""From photos to the paper's tables: `snakemake --cores all`. The workflow itself is workflow/Snakefile."""


include: "workflow/Snakefile"


# Snakemake forgets what an included file wants by default.
workflow.default_target = "all"
