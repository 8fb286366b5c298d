"""By what an audit is known again: one that was interrupted goes on, one that is finished is shown."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from bgbias import plugins, seeds
from bgbias.auditing.question import Question
from bgbias.files import checksums, code
from bgbias.images import pixels
from bgbias.models.adapters import Adapted
from bgbias.report import html

MADE_BY = ("evaluation.photos", "evaluation.crossing", "attribution.smoothgrad", "attribution.occlusion")
TRIED = 16  # photos, spread over all


def of_question(question: Question, model: Adapted) -> str:
    """16 hex digits of all that pixels depend on, and of the model's name."""
    asked, masker = question.asked, question.masker
    shown = (plugins.load("conditions", name).__name__ for name in asked.conditions)
    return _hashed(
        {
            "photos": question.collection.digest,
            "model": [model.name, repr(model.look)],
            "masker": masker and [masker.name, masker.key],
            "backgrounds": question.backgrounds.digest,
            "asked": asked.told,
            "code": code.fingerprint("bgbias.auditing.prepared", *(f"bgbias.{m}" for m in MADE_BY), *shown),
        }
    )


def of_answer(question: Question, model: Adapted) -> str:
    """The same, and of all that numbers and pages are made by: code, templates, libraries."""
    metrics = (plugins.load("metrics", name).__name__ for name in plugins.names("metrics"))
    modules = ("bgbias.auditing.audit", *metrics)
    return _hashed(
        {
            "question": of_question(question, model),
            "code": code.fingerprint(*modules),
            "libraries": code.libraries(*modules),
            "templates": {path.name: checksums.sha256(path) for path in sorted(html.TEMPLATES.iterdir())},
        }
    )


def noise(model: Adapted) -> np.ndarray:
    """What a model makes of two pictures of noise, float32 [2, D]: that tells one from another before anything is read."""
    side = model.look.size
    return model.embed(seeds.generator("audit identity").integers(0, 256, (2, side, side, 3), np.uint8))


def of_model(question: Question, model: Adapted) -> np.ndarray:
    """The same, and of some of the photos, float32 [2 + N, D]: what answers these alike is taken for the same model."""
    collection = question.collection
    ids = collection.table.ids
    some = [ids[row] for row in np.unique(np.linspace(0, len(ids) - 1, TRIED).astype(int))]
    photos = [np.asarray(model.look(pixels.decode(collection.read(i), i))) for i in some]
    return np.concatenate([noise(model), model.embed(np.stack(photos))])


def _hashed(told: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()[:16]
