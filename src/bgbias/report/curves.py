"""How trainings went: validation MAP@R over epochs, a line for each training."""

from __future__ import annotations

import pandas as pd

from bgbias.engine.node import files_of, step
from bgbias.report import look, names
from bgbias.report.figures import _panels
from bgbias.study import plan
from bgbias.study.cell import NO_LOSS
from bgbias.study.params import Study

MONITORED = "^val_(corrupted_)?map_at_r$"


def _histories(study: Study) -> pd.DataFrame:
    """Each epoch of the trainings that are here: the model's names, ``cell``, ``epoch`` and as ``score`` the validation MAP@R
    that picks its best epoch, 0..1: clean or corrupted, as ``train.selection`` says.
    """
    found = []
    for cell in plan.trained(study):
        path = files_of(step("train", cell=cell), "history")["history"].path(study)
        if path.exists():
            history = pd.read_csv(path)
            score = history.filter(regex=MONITORED).iloc[:, 0]
            found.append(history[["epoch"]].assign(score=score, cell=cell.name, **cell.wildcards))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def rising(study: Study) -> str:
    """How many trainings were best at their very end; nothing where no history is here."""
    histories = _histories(study)
    if histories.empty:
        return ""
    of_trainings = histories.groupby(["method", "cell"], sort=False)["score"]
    is_last = of_trainings.agg(lambda score: score.argmax() == len(score) - 1).astype(bool)
    by_method = is_last.groupby("method", sort=False).agg(["mean", "sum", "count"])
    text = f"Best at its last epoch: {is_last.sum()} of {names.count(len(is_last), 'training')}"
    if len(by_method) > 1 and is_last.any():
        most = str(by_method["mean"].idxmax())
        _, last, every = by_method.loc[most]
        text += f", most of {names.method(most)}: {last:.0f} of {every:.0f}"
    return f"{text}."


def drawn(study: Study) -> look.Figure | None:
    """A panel for each dataset, backbone and loss: colours are methods, lines are seeds. None where no history is here."""
    histories = _histories(study)
    if histories.empty:
        return None
    histories = names.in_order(histories)
    low, high = 100 * histories["score"].min() - 2, 100 * histories["score"].max() + 2
    titles = histories["backbone"] + "\n" + histories["loss"].map(names.loss)

    def panel(axes: look.Axes, rows: pd.DataFrame, losses: dict[str, str]) -> None:
        from matplotlib.ticker import MaxNLocator

        for (method, _), line in rows.groupby(["method", "cell"], sort=False):
            colour = look.colour(str(method))
            axes.plot(line["epoch"], 100 * line["score"], color=colour, linewidth=0.9, alpha=0.75)
        axes.set_ylim(low, high)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.grid(axis="y")

    panels = histories.assign(backbone=titles, loss=NO_LOSS)
    return _panels.figure(panels, panel, "epoch", "validation MAP@R, %")
