"""The command ``bgbias audit``."""

from __future__ import annotations

import math
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bgbias.cli.arguments import Device, ImageColumn, LabelColumn, Place, argument, option
from bgbias.errors import UserError
from bgbias.progress import say

if TYPE_CHECKING:
    from bgbias.auditing.comparison import ComparedAudits
    from bgbias.auditing.finished import Audit

app = typer.Typer()
_option = partial(option, "audit")
FAILED = 1
OF_NETWORKS = ("weights", "pooling", "mean", "std", "attribution")
OF_MODELS = ("references", "save_embeddings", "batch_size", "precision")
# Options of what --export and --embeddings do not do.
MEANINGLESS_TO = {
    "--export": (*OF_NETWORKS, "out", "fail_above", *OF_MODELS),
    "--embeddings": (*OF_NETWORKS, *OF_MODELS),
}
NUMBER = r"[-+]?[\d.]+(?:e[-+]?\d+)?"
THREE_NUMBERS = re.compile(f"(--[a-z]+=)?{NUMBER},{NUMBER},{NUMBER}")


class WithCommas(TyperCommand):
    """Takes the three numbers of an option with commas between them, too: ``--mean 0.5,0.5,0.5``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Three numbers in one word, perhaps with their option, become words of their own."""
        apart: list[str] = []
        for word in args:
            apart += re.split("[=,]", word) if THREE_NUMBERS.fullmatch(word) else [word]
        return super().parse_args(ctx, apart)


@app.command(cls=WithCommas)
def audit(
    context: typer.Context,
    photos: Annotated[str, argument("audit", "photos")],
    model: Annotated[list[str] | None, _option("model")] = None,
    references: Annotated[bool, _option("references", "--references")] = False,
    weights: Annotated[Path | None, _option("weights")] = None,
    out: Annotated[Path | None, _option("out")] = None,
    sample: Annotated[int, _option("sample", min=0)] = 500,
    backgrounds: Annotated[str | None, _option("backgrounds")] = None,
    masks: Annotated[str | None, _option("masks")] = None,
    masker: Annotated[str, _option("masker")] = "u2netp",
    mask_weights: Annotated[Path | None, _option("mask_weights")] = None,
    mask_option: Annotated[list[str] | None, _option("mask_option")] = None,
    second_masker: Annotated[str | None, _option("second_masker")] = None,
    second_mask_weights: Annotated[Path | None, _option("second_mask_weights")] = None,
    draws: Annotated[int, _option("draws", min=1)] = 5,
    attribution: Annotated[int, _option("attribution", min=0)] = 64,
    fail_above: Annotated[float | None, _option("fail_above")] = None,
    export: Annotated[Path | None, _option("export")] = None,
    embeddings: Annotated[tuple[Path, Path] | None, _option("embeddings")] = None,
    save_embeddings: Annotated[Path | None, _option("save_embeddings")] = None,
    name: Annotated[str | None, _option("name")] = None,
    class_level: Annotated[int | None, _option("class_level", min=1)] = None,
    image_column: ImageColumn = "",
    label_column: LabelColumn = "",
    place: Place = "",
    size: Annotated[int | None, _option("size")] = None,
    resize: Annotated[int | None, _option("resize")] = None,
    squash: Annotated[bool | None, _option("squash", "--squash")] = None,
    interpolation: Annotated[str | None, _option("interpolation")] = None,
    mean: Annotated[tuple[float, float, float] | None, _option("mean")] = None,
    std: Annotated[tuple[float, float, float] | None, _option("std")] = None,
    pooling: Annotated[str | None, _option("pooling")] = None,
    plugins: Annotated[list[Path] | None, _option("plugins")] = None,
    batch_size: Annotated[int | None, _option("batch_size", min=1)] = None,
    workers: Annotated[int | None, _option("workers", min=1)] = None,
    precision: Annotated[str | None, _option("precision")] = None,
    device: Device = "auto",
) -> None:
    """How much does a model lose when only the background changes, in which classes, and is it significant?

    Interrupt with Ctrl-C; run again to resume. A finished audit is shown, not recomputed. Photos and models
    are never written to.
    """
    typed = locals()
    from bgbias.auditing import exchange, workdir
    from bgbias.auditing.audit import audit_embeddings
    from bgbias.auditing.audit import export as write_views
    from bgbias.auditing.masker import parse_options
    from bgbias.auditing.request import ASKED, Request, audit_each, audit_or_read, prepare
    from bgbias.models.adapters import OPTION_NAMES, Options, load
    from bgbias.plugins import use

    ways = [
        name for name, way in (("--model", model), ("--export", export), ("--embeddings", embeddings)) if way
    ]
    if len(ways) != 1:
        raise UserError(
            f"{' and '.join(ways) or 'Nothing'} {'are' if ways else 'is'} named, and an audit takes one of --model SPEC,"
            " --export FOLDER and --embeddings clean.npy views.npz. To begin with: --model timm:resnet50"
        )
    for unfit in MEANINGLESS_TO[ways[0]] if not model else ():
        if getattr(context.get_parameter_source(unfit), "name", "") == "COMMANDLINE":
            raise UserError(f"--{unfit.replace('_', '-')} means nothing to {ways[0]}; leave it out.")
    if fail_above is not None and (not math.isfinite(fail_above) or 0 < fail_above < 1):
        raise UserError(f"--fail-above is {fail_above:g}; it is a percentage: write 20 for a fifth.")
    for path in embeddings or ():
        if not path.is_file():
            raise UserError(f"There is no file {path}; --embeddings takes clean.npy, then views.npz.")
    if plugins:
        use(*plugins)
    models = list(dict.fromkeys(model or ()))
    if weights and len(models) > 1:
        raise UserError("--weights is of one model; where several are named, leave it out.")
    is_comparison = len(models) > 1 or references
    folder = out or Path("audit")
    if out is None and not is_comparison:
        folder /= workdir.name_folder(models[0] if models else "embeddings")
    if export:
        workdir.check_export(export, photos)
    else:
        workdir.check(folder, photos)
    options = Options(**{name: typed[name] for name in OPTION_NAMES})
    typed["mask_options"] = parse_options(mask_option or ())
    elsewhere = {exchange.NAME: partial(exchange.make_stand_in, options, embeddings and embeddings[0])}
    question, loads = prepare(
        photos,
        {spec: partial(load, spec, options) for spec in models} or elsewhere,
        options,
        Request(**{name: typed[name] for name in ASKED}),
        has_references=references,
        needs_interval=fail_above is not None,
        command=_format_command(),
    )
    views = question.views
    if export:
        with _say_how_to_resume(export):
            write_views(question, loads[exchange.NAME](), export)
        print(f"{export}: {exchange.next_step(photos, views)}")
        return
    with _say_how_to_resume(folder):
        if is_comparison:
            compared, failed = audit_each(question, loads, folder, save_embeddings)
            _show_comparison(compared, folder)
            if fail_above is not None:
                _fail_above([a for a in compared.audits.values() if not a.is_reference], fail_above)
            if failed:
                raise UserError(
                    f"Of {len(loads)} models failed: {', '.join(failed)}. {next(iter(failed.values()))}"
                )
            return
        (load_model,) = loads.values()
        if embeddings:
            vectors = exchange.read(*embeddings, views, len(question.collection.table))
            finished = audit_embeddings(question, load_model(), vectors, folder)
        else:
            finished = audit_or_read(question, load_model(), folder, saving=save_embeddings)
    say(str(finished), sys.stdout)
    say(f"HTML report: {folder / 'audit.html'}")
    files = [name for name in workdir.WRITTEN if (folder / name).is_file()]
    say(f"{workdir.VERDICT}, {', '.join(files)} in {folder}")
    if fail_above is not None:
        _fail_above([finished], fail_above)


@app.command()
def compare(
    audits: Annotated[list[Path], argument("compare", "audits")],
    out: Annotated[Path, option("compare", "out")] = Path("comparison"),
) -> None:
    """Which of several audited models to take, and whether that is more than chance.

    Audits of other photos, masks or backgrounds than the first one's are refused.
    """
    from bgbias.auditing.comparison import compare as compared
    from bgbias.auditing.comparison import read

    comparison = compared(read(audits))
    comparison.save(out)
    _show_comparison(comparison, out)


@app.command()
def leaderboard(
    audits: Annotated[list[Path], argument("leaderboard", "audits")],
    out: Annotated[Path, option("leaderboard", "out")] = Path("leaderboard.html"),
) -> None:
    """One page for many audited models, made on whatever day and machine.

    Models are compared where photos, masks and backgrounds are the same; every collection has its table.
    """
    from bgbias.auditing.comparison import group, read, render
    from bgbias.auditing.workdir import VERDICT
    from bgbias.files.atomic import write_text

    folders = [
        path.parent for folder in audits for path in sorted(folder.rglob(VERDICT)) or [folder / VERDICT]
    ]
    groups = group(read(folders))
    for comparison in groups:
        print(f"{comparison.about['name']}\n{comparison}\n")
    write_text(out, render(groups))
    say(f"HTML report: {out}")


def _show_comparison(compared: ComparedAudits, folder: Path) -> None:
    from bgbias.auditing.comparison import FILES

    print(compared)
    say(f"HTML report: {folder / FILES[0]}")
    say(f"{', '.join(FILES[1:])} in {folder}")


@contextmanager
def _say_how_to_resume(folder: Path) -> Iterator[None]:
    """What is done in ``folder`` may be interrupted, and says how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nbgbias: interrupted. What is finished is kept: the same command again goes on in {folder}.")
        sys.exit(128 + signal.SIGINT)


def _fail_above(audits: Sequence[Audit], above: float) -> None:
    from bgbias.auditing.request import NO_INTERVAL

    lows = [math.nan if audit.finds_hardly_more_than_chance else audit.drop.low for audit in audits]
    for low in lows:
        if 100 * low > above:
            say(f"the drop is significantly above {above:g} %: its interval begins at {100 * low:.1f} %")
            sys.exit(FAILED)
    if any(map(math.isnan, lows)):
        raise UserError(NO_INTERVAL)


def _format_command() -> str:
    """The command that was typed, without where its files go: an audit of the same question writes the same bytes anywhere."""
    words = [word for word in sys.argv[1:] if not word.startswith("--out=")]
    if "--out" in words:
        start = words.index("--out")
        del words[start : start + 2]
    return shlex.join(["bgbias", *words])
