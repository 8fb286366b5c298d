"""Captions of published results told again of the published tables, so that what pages say of numbers is what this code says.

Only where this code is taken for the one that made the numbers: what other code computed, it does not describe.
"""

from __future__ import annotations

from dataclasses import replace

from bgbias.engine.accept import EARLIER
from bgbias.report import tables
from bgbias.results import publication
from bgbias.results.publication import Publication
from bgbias.study.params import Study


def differing(published: Publication, study: Study) -> dict[str, str]:
    """The tables of which this code says otherwise, and what it says; none that are damaged or made by other code."""
    if published.damaged() or "kept" in published.made:
        return {}
    if publication.differing_settings(published, study) or publication.edited(published, study):
        return {}
    told = {name: caption(published, study, name) for name in published.tables}
    return {name: said for name, said in told.items() if said != published.made["captions"][name]}


def caption(published: Publication, study: Study, name: str) -> str:
    """What this code says of a published table, with what it was said to be made of by earlier code."""
    table = tables.load(name)
    excluded = published.made["excluded"] if "mask_report" in table.reads(study) else {}
    said = table.caption(study, published.table(name), excluded)
    before = published.made["captions"][name].split("\n\n")
    return "\n\n".join([said, *(paragraph for paragraph in before if paragraph.startswith(EARLIER))])


def tell(published: Publication, study: Study) -> list[str]:
    """Replace the captions that this code tells otherwise; gives their tables."""
    anew = differing(published, study)
    if anew:
        captions = published.made["captions"] | anew
        publication.write(replace(published, made=published.made | {"captions": captions}))
    return list(anew)
