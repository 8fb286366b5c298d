"""Node: which photos of a folder have no obvious foreground and would make backgrounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bgbias import progress
from bgbias.backgrounds import pools
from bgbias.backgrounds.settings import Proposal
from bgbias.engine import inputs, records
from bgbias.engine.node import Dependencies, Limits, step
from bgbias.errors import UserError
from bgbias.files.atomic import replacing
from bgbias.files.checksums import Content
from bgbias.images import pixels
from bgbias.nodes.masks import find_predictor
from bgbias.study import Study, plan
from bgbias.study.sources import masker_identity

if TYPE_CHECKING:
    import pandas as pd

    from bgbias.backgrounds.foregrounds import Foreground


SHEET_COLUMNS, MOST_SHOWN, SHEET_SIDE = 10, 120, 128
BATCH = 16

SUBJECT = ("pool",)
OUTPUTS = {
    "proposal": "WORK/backgrounds/{pool}/proposal.csv",
    "proposal_sheet": "WORK/backgrounds/{pool}/proposal.png",
    "propose_record": "WORK/backgrounds/{pool}/proposal.json",
}
LIMITS = Limits(memory_mb=8000, minutes=480)


def depends(study: Study, pool: str) -> Dependencies:
    """The folder, by what lies there, what people decided by hand, and the masker."""
    proposal = _proposal(study, pool)
    masker = study.masker(proposal.masker)
    return Dependencies(
        files=inputs.weights(masker),
        settings={
            "source": proposal.source,
            "listing": Content(proposal.source),
            "names": {"keep": proposal.keep, "drop": proposal.drop},
            "masker": masker_identity(study, proposal.masker),
        },
        code=[masker.module],
    )


def threads(study: Study, pool: str) -> int:
    """Photos from a list are many."""
    return 4


def propose(study: Study, pool: str, device: str = "auto") -> None:
    """Look for obvious foregrounds in a folder of backgrounds.

    Writes which photos would make a background, and a contact sheet.
    """
    import pandas as pd

    proposal = _proposal(study, pool)
    with records.node(study, step("propose", pool=pool)) as record:
        pictures = pools.unique(proposal.source)
        strange = sorted({*proposal.keep, *proposal.drop} - set(pictures))
        if strange:
            raise UserError(
                f"backgrounds.{pool}.propose names '{strange[0]}', which {proposal.source} does not hold."
            )
        rows, photos = [], {}
        for name, photo, foreground in _looked_at(study, proposal, pictures, device):
            is_kept = name in proposal.keep or (not foreground.obvious and name not in proposal.drop)
            rows.append({"name": name, "kept": is_kept, **asdict(foreground)})
            photos[name] = photo
        if not rows:
            raise UserError(
                f"{proposal.source} holds no readable pictures; see backgrounds.{pool}.propose in params.yaml."
            )
        frame = pd.DataFrame(rows).sort_values("name", ignore_index=True)
        record.write("proposal", frame)
        _sheet(frame, photos, record.outputs["proposal_sheet"])
        rejected = int((~frame["kept"]).sum())
        progress.say(
            f"{rejected} of {len(frame)} photos have an obvious foreground: {record.outputs['proposal_sheet']}"
        )
        record.metrics |= {"photos": len(frame), "rejected": rejected}


def _proposal(study: Study, pool: str) -> Proposal:
    proposal = plan.pools(study, pool).propose
    if proposal is None:
        raise UserError(f"backgrounds.{pool} has no `propose` in params.yaml; there is nothing to propose.")
    return proposal


def _looked_at(
    study: Study, proposal: Proposal, pictures: dict[str, bytes], device: str
) -> Iterator[tuple[str, np.ndarray, Foreground]]:
    from bgbias.backgrounds.foregrounds import look

    if not study.masker(proposal.masker).module.PREDICTS:
        raise UserError(
            f"The masker '{proposal.masker}' predicts nothing and cannot look for foregrounds; name a U²-Net as"
            " `masker` of the proposal in params.yaml."
        )
    masker = find_predictor(study, proposal.masker, device).build()
    names = sorted(pictures)
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    for batch in progress.track(batches, len(batches), f"foregrounds ({BATCH} photos each)"):
        photos = {}
        for name in batch:
            try:
                photos[name] = pixels.decode(pictures[name], name)
            except UserError as error:
                progress.say(f"left out: {error}")
        for (name, photo), mask in zip(photos.items(), masker(list(photos.values())), strict=True):
            yield name, pixels.resize_short(photo, SHEET_SIDE), look(mask)


def _sheet(frame: pd.DataFrame, photos: dict[str, np.ndarray], target: Path) -> None:
    """The rejected photos, the clearest cases first, then the kept ones that came nearest."""
    from bgbias.images.contact_sheet import contact_sheet

    order = frame.sort_values(["kept", "sharpness"], ascending=[True, False]).head(MOST_SHOWN)
    labels = [
        f"{'kept' if is_kept else 'rejected'}, sharp {sharpness:.2f}"
        for is_kept, sharpness in zip(order["kept"], order["sharpness"], strict=True)
    ]
    sheet = contact_sheet([photos[n] for n in order["name"]], SHEET_COLUMNS, labels, SHEET_SIDE)
    with replacing(target) as temporary:
        sheet.save(temporary, "PNG")
