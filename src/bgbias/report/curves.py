"""How trainings went: validation MAP@R over epochs, a line for each training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bgbias.engine.node import files_of, step
from bgbias.report import look, names
from bgbias.results.rows import MODEL
from bgbias.study import plan
from bgbias.study.params import Study

if TYPE_CHECKING:
    import pandas as pd

MONITORED = "^val_(corrupted_)?map_at_r$"
ACROSS, WIDE, HIGH = 3, 1.9, 1.35  # panels in a row, inches of each
LEFT, GAP, TOP, FOOT, RIGHT = 0.5, 0.3, 0.34, 0.5, 1.9


def _histories(study: Study) -> dict[tuple[str, str, str], list[tuple[str, pd.DataFrame]]]:
    """What is here of each dataset, backbone and loss: a method and its history for each training, in which ``score`` is the
    validation MAP@R that picks its best epoch, 0..1: clean or corrupted, as ``train.selection`` says.
    """
    import pandas as pd

    panels: dict[tuple[str, str, str], list[tuple[str, pd.DataFrame]]] = {}
    for cell in plan.trained(study):
        path = files_of(step("train", cell=cell), "history")["history"].path(study)
        if path.exists():
            of_cell = panels.setdefault((cell.dataset, cell.backbone, cell.loss), [])
            history = pd.read_csv(path)
            of_cell.append((cell.method, history.assign(score=history.filter(regex=MONITORED).iloc[:, 0])))
    return panels


def rising(study: Study) -> str:
    """How many trainings were best at their very end; nothing where no history is here."""
    found: dict[str, list[bool]] = {}
    for method, history in (training for some in _histories(study).values() for training in some):
        last = history["score"].idxmax() == history.index[-1]
        found.setdefault(names.method(method), []).append(last)
    every = [last for some in found.values() for last in some]
    if not every:
        return ""
    most = max(found, key=lambda title: sum(found[title]) / len(found[title]))
    of_most = f", most of {most}: {sum(found[most])} of {len(found[most])}" * (len(found) > 1 and any(every))
    return f"Best at its last epoch: {sum(every)} of {names.count(len(every), 'training')}{of_most}."


def drawn(study: Study) -> look.Figure | None:
    """A panel for each dataset, backbone and loss: colours are methods, lines are seeds. None where no history is here."""
    import pandas as pd
    from matplotlib.ticker import MaxNLocator

    panels = _histories(study)
    if not panels:
        return None
    every = pd.concat([history["score"] for some in panels.values() for _, history in some])
    low, high = 100 * every.min() - 2, 100 * every.max() + 2
    across = min(ACROSS, len(panels))
    down = -(-len(panels) // across)
    models = [(*panel, method) for panel, histories in panels.items() for method, _ in histories]
    methods = names.in_order(pd.DataFrame(models, columns=MODEL))["method"].unique()
    right = max(RIGHT, 0.5 + max(look.text_width(names.method(m)) for m in methods))
    height = max(down * (TOP + HIGH + FOOT), 0.4 + 0.15 * len(methods))
    with look.style():
        figure = look.blank(LEFT + across * (WIDE + GAP) + right, height)
        for number, ((dataset, backbone, loss), histories) in enumerate(panels.items()):
            row, column = divmod(number, across)
            axes = look.panel(
                figure, LEFT + column * (WIDE + GAP), TOP + row * (TOP + HIGH + FOOT), WIDE, HIGH
            )
            for method, history in histories:
                axes.plot(
                    history["epoch"],
                    100 * history["score"],
                    color=look.colour(method),
                    linewidth=0.9,
                    alpha=0.75,
                )
            axes.set_title(f"{names.dataset(dataset)}, {names.loss(loss)}\n{backbone}", fontsize=7)
            axes.set_ylim(low, high)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.set_xlabel("epoch")
            axes.grid(axis="y")
            if not column:
                axes.set_ylabel("validation MAP@R, %")
        handles = [look.handle(names.method(m), color=look.colour(m)) for m in methods]
        figure.legend(handles=handles, loc="upper right", bbox_to_anchor=(0.995, 0.985))
    return figure
