"""Does the drop on composites predict what another place costs? Tables and the picture of validity.md, where the plan is.

They are made of sums by product, which validity_audits.py writes beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import rankdata, spearmanr

from bgbias import seeds
from bgbias.evaluation.conditions import CLEAN
from bgbias.images.contact_sheet import RULE
from bgbias.report import names, style
from bgbias.report.columns import against_plain, with_interval
from bgbias.report.pages import markdown
from bgbias.results import comparison, places, publication
from bgbias.results.rows import records
from bgbias.results.uncertainty import Estimate

ROOT = Path(__file__).resolve().parents[2]
TABLES = Path("docs/results/validity")
PERMUTATIONS = 10_000
SMALL_P = 0.001
# The photos and networks of the plan, and what is another of them, with the eight fastest networks.
RUNS = {
    "main": "main run",
    "isnet": "masks by IS-Net",
    "other_draws": "other draws of photos and backgrounds",
}
PICTURE = TABLES / "validity.png"
PICTURE_OF_SHARES = TABLES / "shares.png"
MODELS = {
    "pretrained": "backbone alone",
    "plain": "trained",
    "bgaugment": "BGAugment",
}  # of the grid two_visits
WITHOUT = places.SAME_WITHOUT_LENDERS
COLUMNS = {
    **places.LEVELS,
    "here_without": (WITHOUT, CLEAN),
    "others_there": (WITHOUT, "others_there"),
    "others_here": (WITHOUT, "others_here"),
    **places.CARRIED,
    "here_on_there": (WITHOUT, "class_there"),
}
# What the background carries of A - B: by what it wins back there (C - B), or by what it costs here (A - D).
PATHS = {"there": ("there_on_there", "there_on_here"), "here": ("here_on_here", "here_on_there")}
DROPS = {  # what the drop goes from, and to
    "natural": ("here", "there"),
    "a": ("here", "composite"),
    "b": ("here_without", "others_there"),
    "c": ("here_without", "others_here"),
}


class Sums:
    """The levels of a run: of networks, in ``COLUMNS``, over products."""

    def __init__(self, run: str, of: Sequence[str] | None = None) -> None:
        table = pd.read_csv(ROOT / TABLES / f"{run}.csv")
        self.networks = list(dict.fromkeys(table["network"])) if of is None else list(of)
        self.products = sorted(set(table["product"]))
        indexed = table.set_index(["network", "level", "product"])
        every = pd.MultiIndex.from_product([self.networks, list(COLUMNS), self.products])
        wide = indexed.reindex(every, fill_value=0)
        shape = (len(self.networks), len(COLUMNS), len(self.products))
        self.sums, self.of_others, self.queries = (
            wide[column].to_numpy(float).reshape(shape) for column in ("map_at_r", "of_others", "queries")
        )

    def levels(self, products: np.ndarray) -> dict[str, np.ndarray]:
        """MAP@R of each network over the queries of some products; where one is missing, without it in the gallery, too."""
        left = np.setdiff1d(np.arange(len(self.products)), products)
        total = self.sums[:, :, products].sum(-1)
        if len(left) == 1:
            total = total + self.of_others[:, :, left[0]]
        means = total / self.queries[:, :, products].sum(-1)
        return dict(zip(COLUMNS, means.T, strict=True))

    def drops(self, products: np.ndarray) -> dict[str, np.ndarray]:
        """Each network's relative drops."""
        of = self.levels(products)
        return {name: 1 - of[after] / of[before] for name, (before, after) in DROPS.items()}

    def lost(self) -> dict[str, np.ndarray]:
        """Points of MAP@R that each network loses of each product, [networks, products]."""
        means = dict(zip(COLUMNS, (self.sums / self.queries).swapaxes(0, 1), strict=True))
        return {name: means[before] - means[after] for name, (before, after) in DROPS.items()}

    def one_by_one(self, statistic: Callable[[np.ndarray], float]) -> Estimate:
        """A smooth statistic of products with its interval: the delete-one jackknife with Student's t."""
        from scipy.stats import t as student

        every = np.arange(len(self.products))
        value = statistic(every)
        without = np.array([statistic(np.delete(every, one)) for one in every])
        error = np.sqrt((len(every) - 1) * ((without - without.mean()) ** 2).mean())
        reach = float(student.ppf(0.975, len(every) - 1) * error)
        return Estimate(value, value - reach, value + reach)

    def halves(self, statistic: Callable[[np.ndarray], float]) -> Estimate:
        """A statistic of ranks with its interval: the delete-half jackknife."""
        return comparison.over_classes(statistic, len(self.products))


def rank_correlations(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row of two arrays [R, N]."""
    return np.array([spearmanr(*rows).statistic for rows in zip(one, other, strict=True)])


def over_networks(of: Sums, composite: str) -> Estimate:
    """Spearman's correlation of natural and composite drop over networks."""

    def correlation(some: np.ndarray) -> float:
        drops = of.drops(some)
        return float(rank_correlations(drops["natural"][None], drops[composite][None])[0])

    return of.halves(correlation)


def permutation_p(of: Sums, composite: str) -> float:
    """How often networks in a random order correlate as much."""
    drops = of.drops(np.arange(len(of.products)))
    return permuted(drops["natural"], drops[composite])


def permuted(one: np.ndarray, other: np.ndarray) -> float:
    """The two-sided p of Spearman's correlation [N], by permutations."""
    ranks = [rankdata(values) - (len(values) + 1) / 2 for values in (one, other)]
    generator = seeds.generator("order of networks")
    orders = np.stack([generator.permutation(ranks[0]) for _ in range(PERMUTATIONS)])
    own = abs(float(ranks[0] @ ranks[1]))
    return float((1 + (np.abs(orders @ ranks[1]) >= own - 1e-9).sum()) / (1 + PERMUTATIONS))


def over_products(of: Sums, composite: str) -> Estimate:
    """The median over networks of Spearman's correlation of lost points over products."""
    lost = of.lost()

    def median(some: np.ndarray) -> float:
        return float(np.median(rank_correlations(lost["natural"][:, some], lost[composite][:, some])))

    return of.halves(median)


def carried(of: Sums, network: int | None = None, path: str = "there") -> Estimate:
    """The share of the natural drop that the background carries: of a network, or pooled."""

    def share(some: np.ndarray) -> float:
        of_networks = of.levels(some)
        levels = {name: of.mean() if network is None else of[network] for name, of in of_networks.items()}
        won, without = (levels[name] for name in PATHS[path])
        return float((won - without) / (levels["here_on_here"] - levels["there_on_here"]))

    return of.one_by_one(share)


def slope(of: Sums, composite: str) -> Estimate:
    """Of the natural on a composite drop, over networks."""
    return of.one_by_one(
        lambda some: float(np.polyfit(of.drops(some)[composite], of.drops(some)["natural"], 1)[0])
    )


def more_than(of: Sums, composite: str) -> Estimate:
    """The mean over networks of the natural less the composite drop."""
    return of.one_by_one(lambda some: float((of.drops(some)["natural"] - of.drops(some)[composite]).mean()))


STATISTICS = {
    "rank correlation over networks": over_networks,
    "median rank correlation over products": over_products,
    "natural minus composite drop, percentage points": lambda of, composite: scaled(
        more_than(of, composite), 100
    ),
}


def scaled(estimate: Estimate, by: float) -> Estimate:
    """The same in another unit."""
    return Estimate(by * estimate.value, by * estimate.low, by * estimate.high)


def printed(estimate: Estimate, digits: int = 2) -> str:
    """A number with its interval."""
    return with_interval(estimate.value, estimate.low, estimate.high, digits)


def shares() -> pd.DataFrame:
    """What embeddings are made of beside what is lost, a row a network: shares of variance, drops, and the points that a grey
    background wins on other backgrounds, in percent.
    """
    table = pd.read_csv(ROOT / TABLES / "shares.csv").set_index("network")
    of = Sums("main")
    drops = of.drops(np.arange(len(of.products)))
    return (100 * table.loc[of.networks]).assign(natural=100 * drops["natural"], a=100 * drops["a"])


def law() -> pd.DataFrame:
    """Spearman's correlation over networks of each share with each drop and with what grey wins, with the p of a permutation."""
    table = shares()
    lines = []
    for share in ("object", "background", "interaction"):
        line = {"share of variance": share}
        for title, column in (
            ("composite drop (a)", "a"),
            ("natural drop", "natural"),
            ("gain from grey", "grey"),
        ):
            found = spearmanr(table[share], table[column])
            p = permuted(table[share], table[column])
            line[title] = f"{found.statistic:.2f} (p {'< 0.001' if p < SMALL_P else f'{p:.3f}'})"
        lines.append(line)
    return pd.DataFrame(lines)


def by_run() -> dict[str, Sums]:
    """The sums of all runs that are there; of the main one those of the eight fastest networks, too."""
    there = {run: Sums(run) for run in RUNS if (ROOT / TABLES / f"{run}.csv").exists()}
    others = [of for run, of in there.items() if run != "main"]
    return there | ({"main, eight": Sums("main", others[0].networks)} if others else {})


def statistics() -> pd.DataFrame:
    """The primary statistics, a row each, and what else was fixed beforehand: a column a run."""
    rows: dict[str, dict[str, str]] = {}
    for run, of in by_run().items():
        title = RUNS.get(run, "main run, these networks")
        column = f"{title} ({len(of.networks)})"

        def add(name: str, text: str, column: str = column) -> None:
            rows.setdefault(name, {})[column] = text

        for name, statistic in STATISTICS.items():
            for composite in "abc":
                digits = 0 if "points" in name else 2
                add(f"{name}, ({composite})", printed(statistic(of, composite), digits))
        for composite in "abc":
            add(f"p of the correlation over networks, ({composite})", f"{permutation_p(of, composite):.4f}")
        add("slope on the composite drop (b)", printed(slope(of, "b")))
        add("the same on (a), not planned", printed(slope(of, "a")))
        add("carried by the background, %", printed(scaled(carried(of), 100), 0))
        by_cost = scaled(carried(of, path="here"), 100)
        add("the same by what it costs at its own visit, not planned", printed(by_cost, 0))
    order = sorted(rows, key=lambda name: (name.startswith("p of"), list(rows).index(name)))
    return pd.DataFrame([{"statistic": name, **rows[name]} for name in order]).fillna("–")


def networks() -> pd.DataFrame:
    """The main run, a row a network: its levels, its drops and what the background carries, in percent."""
    of = Sums("main")
    levels = of.levels(np.arange(len(of.products)))
    lines = []
    for number, name in enumerate(of.networks):
        line = {"network": name}
        for title, level in (("same visit", "here"), ("other visit", "there")):
            line[title] = f"{100 * levels[level][number]:.1f}"
        for title, drop in (("natural drop", "natural"), ("(a)", "a"), ("(b)", "b"), ("(c)", "c")):
            own = of.one_by_one(lambda some, d=drop, n=number: float(of.drops(some)[d][n]))  # type: ignore[misc]
            line[title] = printed(scaled(own, 100), 0)
        line["carried"] = printed(scaled(carried(of, number), 100), 0)
        lines.append((levels["there"][number], line))
    return pd.DataFrame([line for _, line in sorted(lines, key=lambda pair: -pair[0])])


def cures() -> pd.DataFrame:
    """What each cure of Table 7 wins, in points of MAP@R: on composites (query and gallery), and at the other visit."""
    table = publication.read("two_visits").table("table7")
    own = table["method"].str.split("+", n=1, expand=True)
    table = table.assign(model=own[0], cure=own[1])
    lines = []
    for cure in dict.fromkeys(table["cure"].dropna()):
        line = {"cure": names.method(cure)}
        for model, title in MODELS.items():
            (row,) = records(table[(table["model"] == model) & (table["cure"] == cure)])
            for gain, of in (("corrupted_gain", "composites"), ("other_place_gain", "other visit")):
                line[f"{title}: {of}"] = against_plain(gain, 1)(row)
        lines.append(line)
    return pd.DataFrame(lines)


def draw() -> None:
    """Natural against composite drop: a dot a network, a faint one a product over all networks."""
    of = Sums("main")
    drops = of.drops(np.arange(len(of.products)))
    per_product = dict(zip(COLUMNS, of.sums.sum(0), strict=True))
    with style.style():
        figure = style.blank(style.WIDTH, 3.6)
        panels = figure.subplots(1, 2, sharey=True)
        titles = {"a": "on the paper's backgrounds (a)", "b": "on the other visit's backgrounds (b)"}
        for axes, (composite, title) in zip(panels, titles.items(), strict=True):
            faint = {
                name: 100 * (1 - per_product[after] / per_product[before])
                for name, (before, after) in DROPS.items()
            }
            axes.plot([-100, 100], [-100, 100], color=RULE, linewidth=0.8, zorder=0)
            axes.scatter(
                faint[composite], faint["natural"], s=10, color=style.PALETTE[0], alpha=0.3, linewidths=0
            )
            axes.scatter(
                100 * drops[composite], 100 * drops["natural"], s=26, color=style.PALETTE[1], linewidths=0
            )
            axes.set(xlim=(-5, 100), ylim=(-5, 100), xlabel=f"composite drop, %: {title}")
        panels[0].set_ylabel("natural drop, %: gallery of the other visit")
    figure.savefig(ROOT / PICTURE)


def draw_shares() -> None:
    """Both drops and what grey backgrounds win, against each share of variance: a dot a network."""
    table = shares()
    with style.style():
        figure = style.blank(style.WIDTH, 2.6)
        panels = figure.subplots(1, 3, sharey=True)
        for axes, share in zip(panels, ("object", "background", "interaction"), strict=True):
            for number, (column, title) in enumerate(
                {"a": "composite drop (a)", "natural": "natural drop", "grey": "gain from grey"}.items()
            ):
                axes.scatter(
                    table[share], table[column], s=18, color=style.PALETTE[number], linewidths=0, label=title
                )
            axes.set_xlabel(f"share of the {share}, %")
        panels[0].set_ylabel("% (drops), points (grey)")
        panels[-1].legend(loc="upper right", frameon=False, fontsize="small")
    figure.savefig(ROOT / PICTURE_OF_SHARES)


def tables() -> Mapping[str, str]:
    """The tables as the page shows them."""
    shown = {"statistics": statistics(), "networks": networks(), "law": law(), "cures": cures()}
    return {name: markdown(table) for name, table in shown.items()}
