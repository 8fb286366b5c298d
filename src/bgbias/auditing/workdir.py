"""Where an audit works and what it leaves there: its own folder for one process at a time, and nobody else's files.

What is unfinished lies inside, under the digest of the question: another question never meets the pixels or embeddings of this
one, and does not delete them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from bgbias import plugins, seeds
from bgbias.auditing.config import CONDITIONS, Question
from bgbias.errors import UserError
from bgbias.files import checksums, code, places
from bgbias.files.atomic import replacing, write_text
from bgbias.files.locks import hold_lock
from bgbias.files.pictures import unique
from bgbias.models.adapters import Adapted
from bgbias.report import html

UNFINISHED = ".unfinished"
FINISHED = ".finished.npz"  # which question the files answer, and what its model makes of some pictures
VERDICT = "audit.json"
WRITTEN = (
    "audit.html",
    "verdict.txt",
    "classes.csv",
    "photos.csv",
    "photos.parquet",
    "queries.parquet",
    "pictures.zip",
    "timing.json",
    "worst.jpg",
    "doubtful.jpg",
    "random.jpg",
)
NOISE = "noise.npy"
PIXELS = "pixels-"
SAME_MODEL = 1e-3  # of the largest number: embeddings of one model differ by less from machine to machine
EXPORTS = "exports"
QUESTION, PHOTOS = "question.json", "photos.csv"  # of an export


def check(folder: Path, photos: object) -> None:
    """Refuse a folder for an audit's files, before anything is done: one inside the photos' own, which would be taken for photos
    the next time; one with somebody else's files of the same names; and one that cannot be written to.
    """
    _check_folder(folder, photos, "--out")
    ours = list_earlier_files(folder)
    for name in (VERDICT, *WRITTEN):
        if name not in ours and (folder / name).exists():
            raise UserError(
                f"{folder / name} is of no audit and would be replaced; name another folder by --out."
            )


def check_export(folder: Path, photos: object) -> None:
    """The same of a folder for pictures."""
    _check_folder(folder, photos, "--export")
    foreign = [path for pattern in (QUESTION, "*-*/", PHOTOS) for path in folder.glob(pattern)]
    if foreign and "digest" not in _read_json(folder / QUESTION):
        raise UserError(f"{foreign[0]} is of no export; name another folder by --export.")


def list_earlier_files(folder: Path) -> frozenset[str]:
    """The files of an earlier audit in ``folder``, as its verdict says."""
    before = _read_json(folder / VERDICT)
    is_ours = {"schema", "bgbias", "files"} <= before.keys()
    return frozenset((VERDICT, *before["files"])) if is_ours else frozenset()


def strip_folders(word: str) -> str:
    """A model's name or a word of a command without the folders of this machine: what is handed on."""
    return re.sub(r"(?<![^:=])/(?:[^/]+/)*(?=[^/])", "", word)


def strip_command(command: str) -> str:
    """The same of a whole command."""
    return shlex.join(map(strip_folders, shlex.split(command)))


def name_folder(model: str) -> str:
    """What the folder of a model's audit is called."""
    return _spell(strip_folders(model))


def name_folders(models: Collection[str]) -> dict[str, str]:
    """The models by what the folders of their audits are called: with their whole paths where files have one name. Two that
    would still be called alike are an error.
    """
    sharing = Counter(map(name_folder, models))

    def call(model: str) -> str:
        folder = name_folder(model)
        return folder if sharing[folder] == 1 else _spell(model)

    return unique(models, call, "The models")


def _spell(model: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", model).strip("-.") or "model"


def name_another_audit(folder: Path, question: Question, model: Adapted) -> str:
    """Which model and photos the audit in ``folder`` is of, if it is not of these; else nothing."""
    if not list_earlier_files(folder):
        return ""
    before = _read_json(folder / VERDICT)
    names = before["model"]["name"], before["photos"]["name"]
    return "" if names == (model.name, question.collection.name) else " on ".join(names)


def finish(folder: Path, digest: str, answers: np.ndarray) -> None:
    """Keep which question the files in ``folder`` answer, and what its model makes of some pictures, float32 [N, D]."""
    with replacing(folder / FINISHED) as temporary, temporary.open("wb") as file:
        np.savez(file, digest=np.array(digest), answers=answers)


def is_answered(folder: Path, question: Question, model: Adapted) -> bool:
    """Whether the files in ``folder`` are this question's answer of this model, all of them; the model is asked where all else
    agrees.
    """
    files = list_earlier_files(folder)
    try:
        with np.load(folder / FINISHED, allow_pickle=False) as saved:
            digest, before = str(saved["digest"]), saved["answers"]
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile):
        return False
    is_whole = bool(files) and all((folder / name).is_file() for name in files)
    is_same_question = is_whole and digest == hash_answer(question, model)
    return is_same_question and _are_alike(before, fingerprint_model(question, model))


def _read_json(path: Path) -> dict[str, Any]:
    """What a file of ours says; nothing if it is missing or somebody else's."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _check_folder(folder: Path, photos: object, option: str) -> None:
    source = Path(photos) if isinstance(photos, (str, Path)) else None
    if source is not None and source.is_dir() and folder.resolve().is_relative_to(source.resolve()):
        raise UserError(f"{folder} lies inside the photos; name a folder outside of {source} by {option}.")
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UserError(f"{folder} cannot be written to; name another folder by {option}.")


@contextmanager
def claim(folder: Path, question: Question, model: Adapted) -> Iterator[Path]:
    """The folder of what is unfinished of this question, which goes when the block ends well; a second process that wants to work
    in ``folder`` is a UserError that names the first. Another model of the same name has a folder of its own. Prepared pixels,
    which lie beside it, go with the last of the unfinished audits.
    """
    refusal = f"Process {{}} is writing an audit to {folder}; wait for it, or name another folder by --out."
    with hold_lock(folder / ".lock", seconds=0, refusal=refusal):
        root, digest, noise = folder / UNFINISHED, hash_views(question, model), embed_noise(model)
        number = 0
        while _is_of_another(work := root / f"{digest}-{number}", noise):
            number += 1
        work.mkdir(parents=True, exist_ok=True)
        np.save(work / NOISE, noise)
        (folder / FINISHED).unlink(missing_ok=True)
        yield work
        shutil.rmtree(work)
        if all(other.name.startswith(PIXELS) for other in root.iterdir()):
            shutil.rmtree(root)


def _is_of_another(work: Path, noise: np.ndarray) -> bool:
    """Whether another model of the same name began to work there; one that was killed at once left nothing."""
    with suppress(OSError, ValueError, EOFError):
        return not _are_alike(np.load(work / NOISE, allow_pickle=False), noise)
    return False


def _are_alike(before: np.ndarray, noise: np.ndarray) -> bool:
    most = SAME_MODEL * float(np.abs(noise).max())
    return before.shape == noise.shape and float(np.abs(before - noise).max()) <= most


def begin_export(folder: Path, digest: str) -> None:
    """Refuse a folder that holds the pictures of another question."""
    path = folder / QUESTION
    if path.exists() and _read_json(path).get("digest") != digest:
        raise UserError(
            f"{folder} holds the pictures of another question; name another folder by --export, or delete it."
        )
    write_text(path, json.dumps({"digest": digest}) + "\n")


def end_export(digest: str) -> None:
    """Remember, in the person's cache, that all pictures of this question were written."""
    write_text(places.cache() / EXPORTS / digest, "")


def check_exported(digest: str) -> None:
    """Refuse embeddings of pictures that nobody wrote: those of other photos, masks, backgrounds or sizes."""
    if not (places.cache() / EXPORTS / digest).exists():
        raise UserError(
            "No pictures were exported for this question on this computer, so that these embeddings are of another one. Give the"
            " options of the --export that wrote the pictures, or export again."
        )


def locate_pixels(question: Question, model: Adapted, root: Path) -> Path:
    """The folder of prepared pixels in ``root``: the same for every model of one look, whatever is asked of it."""
    collection = question.collection
    digest = _hash(
        {
            "photos": [collection.digest, collection.upright],
            "look": repr(model.look),
            "maskers": question.maskers,
            "code": code.fingerprint("bgbias.auditing.prepared_photos"),
        }
    )
    return root / f"{PIXELS}{digest}"


MADE_BY = ("evaluation.photos", "evaluation.crossing", "attribution.any_model", "attribution.smoothgrad")
TRIED = 16  # photos, spread over all


def hash_views(question: Question, model: Adapted) -> str:
    """16 hex digits of all that the views depend on that a model is shown, and of the model's name."""
    config = question.asked
    conditions = (plugins.load("conditions", name).__name__ for name in dict(question.views))
    return _hash(
        {
            "photos": question.collection.digest,
            "model": [model.name, repr(model.look)],
            "maskers": question.maskers,
            "backgrounds": question.backgrounds.digest,
            "shown": [CONDITIONS, config.draws, config.policy.model_dump()],
            "code": code.fingerprint(
                "bgbias.auditing.prepared_photos", *(f"bgbias.{m}" for m in MADE_BY), *conditions
            ),
        }
    )


def hash_answer(question: Question, model: Adapted) -> str:
    """The same, of what else is asked, and of all that numbers and pages are made by: code, templates, libraries."""
    metrics = (plugins.load("metrics", name).__name__ for name in plugins.names("metrics"))
    modules = ("bgbias.auditing.audit", *metrics)
    return _hash(
        {
            "views": hash_views(question, model),
            "asked": question.asked.as_json(),
            "sessions": sorted(question.collection.sessions.items()),
            "code": code.fingerprint(*modules),
            "libraries": code.libraries(*modules),
            "templates": {path.name: checksums.sha256(path) for path in sorted(html.TEMPLATES.iterdir())},
        }
    )


def embed_noise(model: Adapted) -> np.ndarray:
    """What a model makes of two pictures of noise, float32 [2, D]: that tells one from another before anything is read."""
    side = model.look.size
    return model.embed(seeds.generator("audit identity").integers(0, 256, (2, side, side, 3), np.uint8))


def fingerprint_model(question: Question, model: Adapted) -> np.ndarray:
    """The same, and of some of the photos, float32 [2 + N, D]: what answers these alike is taken for the same model."""
    collection = question.collection
    ids = collection.table.ids
    chosen = [ids[row] for row in np.unique(np.linspace(0, len(ids) - 1, TRIED).astype(int))]
    photos = [np.asarray(model.look(collection.decode(i))) for i in chosen]
    return np.concatenate([embed_noise(model), model.embed(np.stack(photos))])


def _hash(facts: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:16]
