"""What a node executes and reads while it makes numbers is in its digest: nobody has to remember to name it."""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from small_study import described, load, options

from bgbias import plugins
from bgbias.cli.nodes import work
from bgbias.engine import graph, records
from bgbias.engine.node import Node
from bgbias.files import code
from bgbias.study.params import Study

pytestmark = pytest.mark.usefixtures("small_plugins")
PLANNED = tuple(f"/{place.replace('.', '/')}/" for place in code.RULES["planned"])
# They say what is to be done, move files that checksums verify, or speak to people.
WITHOUT_NUMBERS = {
    "bgbias.compute.gpu_slots",  # which GPU, not what it computes
    *(f"bgbias.engine.{m}" for m in ("inputs", "node", "records")),
    *(f"bgbias.files.{m}" for m in ("atomic", "code", "locks", "places")),
    *("bgbias.plugins", "bgbias.progress", "bgbias.settings"),
    *(f"bgbias.study.{m}" for m in ("cell", "named", "params", "paths", "plan", "sources", "variants")),
}


OPENED: set[Path] = set()


def _note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.add(Path(arguments[0]))


sys.addaudithook(_note_opened)


# A study, and by its nodes the files of which each executed a function, and those it opened, while it made its products.
Executed = tuple[Study, dict[Node, set[str]], dict[Node, set[Path]]]


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Executed:
    """Every node of a small grid."""
    folder = tmp_path_factory.mktemp("known")
    raw = options(described(folder), photos=6, train_classes=4, val_classes=2, test_classes=3, closed=True)
    raw["datasets"]["squares"]["fit_probes_on"] = "squares"
    raw["methods"] = {"gaining": {"kind": "gained", "rate": 0.5}}
    raw["maskers"]["ground_truth"] = {"kind": "red"}
    methods = ["texture_ns", "gaining+bgaugment"]
    raw["grids"]["small"]["cells"][0] |= {"methods": methods, "losses": ["contrastive"]}
    raw["segmentation"] = {"episodes": 2}
    raw["train"] |= {"max_epochs": 1, "iterations_per_epoch": 2}
    raw["evaluation"]["draws"] = 1
    raw["evaluation"]["conditions"] = [
        *("clean", "random_background", "own_inpainted", "mixed_same", "mixed_rand", "mixed_next"),
        *("only_fg", "no_fg", "only_bg", "moved", "scaled"),
    ]
    raw["crossing"] = {"objects": 3, "backgrounds": 2}
    raw["cures"] = {"names": list(plugins.names("cures")), "draws": 1, "objects": 3, "backgrounds": 2}
    raw["attacked"] = {"attacks": ["stax", "mtax:2"], "epsilon": [2.0], "steps": 1}
    raw["sanity"] = {"images": 2}
    raw["probes"] = {"folds": 2}
    raw["attribution"] |= {"images": 2, "samples": 1, "similarity": "magnitude", "pretrained": True}
    study = load(folder, raw)
    seen: dict[Node, set[str]] = {}
    opened: dict[Node, set[Path]] = {}
    real = records.node

    @contextmanager
    def watched(study: Study, worker: Node) -> Iterator[records.Record]:
        files = seen.setdefault(worker, set())
        met: dict[int, CodeType] = {}  # kept alive, as another one's number may be its own after it

        def note(frame: FrameType, event: str, arg: Any) -> None:
            """Told of every function's begin, and by returning nothing of none of its lines."""
            function = frame.f_code
            if id(function) not in met:
                met[id(function)] = function
                file, name = function.co_filename, function.co_name
                # An import computes nothing, and what a plan is made of stands in the digest itself.
                if name != "<module>" and not (name in code.PLANNING and any(p in file for p in PLANNED)):
                    files.add(file)

        with real(study, worker) as made:
            gc.collect()  # what steps before left unfinished ends now, and not as this step's code
            OPENED.clear()
            threading.settrace(note)
            sys.settrace(note)
            try:
                yield made
            finally:
                opened[worker] = set(OPENED)
                sys.settrace(None)
                threading.settrace(None)  # type: ignore[arg-type]

    gc.collect()
    gc.freeze()  # or each step's collection looks through all that tests before have left
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "node", watched)
        # Of figures those that look at photos or rank: the others draw tables.
        shown = ("photos", "retrieval")
        work(study, [n for n in graph.in_order(study) if n.keywords.get("figure", shown[0]) in shown])
    return study, seen, opened


def _name(file: Path) -> str:
    parts = file.relative_to(code.ROOT).with_suffix("").parts
    return ".".join(["bgbias", *parts]).removesuffix(".__init__")


def test_every_file_that_is_executed_is_in_the_nodes_code(executed: Executed) -> None:
    study, seen, _ = executed
    elsewhere = {"fetch", "weights", "gather", "propose", "pretrain"}  # of no study as small as this one
    assert {n.name for n in seen} == set(plugins.names("nodes")) - elsewhere
    # Functions of plugins, of threads and of what is imported late were seen at work.
    trained = {Path(f).name for node, files in seen.items() if node.name == "train" for f in files}
    assert {"gained.py", "gains.py", "contrastive.py", "pixels.py", "composite.py", "map_at_r.py"} <= trained
    unknown, without_numbers = {}, set[str]()
    for node, files in seen.items():
        needed = graph.in_order(study, [node])
        known = {file for n in needed for file in code.modules(*graph.modules(study, n))}
        names = {_name(Path(f)) for f in files if Path(f).is_relative_to(code.ROOT)}
        counted = {name for name in names if code.carries_numbers(name)}
        without_numbers |= names - counted
        # A plan asks it, too: whether a model is trained; trainings have it in their code.
        missed = {n for n in counted if code._find_label(n) not in known} - {"bgbias.study.methods"}
        missed |= {f for f in files if "/support/plugins/" in f and not any(f.endswith(k) for k in known)}
        if missed:
            unknown[node.label] = missed
    assert unknown == {}
    # A module that is added here must be argued for: an edit of it makes nothing out of date.
    assert without_numbers <= WITHOUT_NUMBERS


def test_what_a_node_is_said_to_read_is_what_it_opens(executed: Executed) -> None:
    """Only that is checksummed, waited for, and missed when it is not there."""
    study, _, opened = executed
    # Weights and Parquet are read by another language, which no hook sees; every node opens the records of those before it.
    unseen = (".safetensors", ".json", ".parquet")
    said = {
        node: {p for p in graph.inputs(study, node.name, **node.keywords).values() if p.suffix not in unseen}
        for node in opened
    }
    products = set().union(*said.values())
    assert {node: files & products for node, files in opened.items()} == said
