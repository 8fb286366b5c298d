"""Node: a table of the report; each table's file says what it is made of, and makes it."""

from bgbias.engine import records
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.report import names, tables
from bgbias.study.params import Study

SUBJECT = ("table",)
OUTPUTS = {
    "table_csv": "REPORT/{table}.csv",
    "table_md": "REPORT/{table}.md",
    "table_tex": "REPORT/{table}.tex",
    "table_html": "REPORT/{table}.html",
    "table_yaml": "REPORT/{table}.yaml",
    "table_record": "REPORT/{table}.json",
}
LIMITS = Limits(minutes=60)


def goals(study: Study) -> list[dict[str, str]]:
    return [{"table": name} for name in tables.list_enabled(study)]


def depends(study: Study, table: str) -> Dependencies:
    return tables.find_dependencies(study, tables, "table", table)


def table(study: Study, table: str) -> None:
    """Write a table as CSV, Markdown, LaTeX and HTML. Its main numbers go into a YAML file."""
    from bgbias.report import captions, formats, sources

    with records.node(study, step("table", table=table)) as record:
        declared = tables.load(table)
        numbers = declared.make(study)
        excluded = sources.excluded(study, declared.reads(study))
        caption = captions.write(declared, study, numbers, excluded)
        formats.write(numbers, record.outputs["table_csv"].parent, table, caption)


def show(study: Study) -> None:
    """Print the grid's tables and what training took, and say where figures are and how to compare runs."""
    from bgbias.report import costs, formats

    files = study.files
    for name in tables.list_enabled(study):
        text = formats.show(formats.read(files.at("table_csv", table=name)), name)
        print(f"\n{names.table(name)} ({files.at('table_md', table=name)})\n\n{text}")
    if spent := costs.format_costs(study):
        print(f"\nWhat training took\n\n{spent}")
    print(f"\nFigures: {files.at('figure_png', figure='x').parent}/")
    print("Compare runs, curves and settings: make ui, then open http://127.0.0.1:5000")
