"""Several models on the same photos: each audited in a folder of its own, then compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from bgbias.auditing import workplace
from bgbias.auditing.audit import is_answered, run
from bgbias.auditing.compared import ComparedAudits
from bgbias.auditing.finished import Audit
from bgbias.auditing.question import Question
from bgbias.errors import UserError
from bgbias.models.adapters import Adapted
from bgbias.progress import say

Load = Callable[[], Adapted]


def audit_or_read(
    question: Question,
    model: Adapted,
    folder: Path,
    shared: Path | None = None,
    saving: Path | None = None,
) -> Audit:
    """The audit in ``folder``, computed unless its files are the answer already; one of another model or
    of other photos there is replaced, which is said first. ``shared`` and ``saving`` as in ``audit.run``.
    """
    if saving is None and is_answered(question, model, folder):
        say(
            f"{folder} has this audit already, of the same photos, masks, backgrounds and code, and of a"
            " model that answers alike: nothing was computed. To compute it again, name another folder by"
            " --out."
        )
    else:
        if before := workplace.another_audit(folder, question, model):
            say(
                f"{folder} holds an audit of {before}, which this one replaces when it is finished; to keep"
                " it, press Ctrl-C and name another folder by --out"
            )
        run(question, model, folder, shared, saving)
    return Audit.load(folder)


def audit_each(
    question: Question, models: Mapping[str, Load], folder: Path, saving: Path | None = None
) -> tuple[ComparedAudits, dict[str, UserError]]:
    """Models by name, each in ``folder/<name>``, and the files of their comparison in ``folder``; their
    embeddings in ``saving/<name>``, if that is given.

    One is loaded at a time; one that fails does not cost the others, and is given back with its error.
    If all fail, the first error is raised.
    """
    if not question.collection.labelled:
        raise UserError(
            f"{question.collection.name} has no classes: nobody knows which model finds more. Name them, or"
            " audit one model at a time."
        )
    audits: dict[str, Audit] = {}
    failed: dict[str, UserError] = {}
    with workplace.sharing_pixels(folder) as pixels:
        for number, (name, load) in enumerate(models.items(), 1):
            say(f"\n{name} ({number} of {len(models)})")
            try:
                model = replace(load(), name=name)
                own = workplace.folder_name(name)
                kept = saving / own if saving else None
                audits[name] = audit_or_read(question, model, folder / own, pixels, kept)
            except UserError as error:
                failed[name] = error
                say(f"{name} failed, and the others go on: {error}")
    if not audits:
        raise next(iter(failed.values()))
    compared = ComparedAudits(audits)
    compared.save(folder)
    return compared, failed
