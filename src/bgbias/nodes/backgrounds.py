"""Background nodes: photos of a list, a proposal from any folder, and the three disjoint pools."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from bgbias import backgrounds as pools
from bgbias import images, listed, plan, plugins, progress, records
from bgbias.atomic import replacing
from bgbias.errors import UserError
from bgbias.foregrounds import Foreground, look
from bgbias.nodes.masks import predictor
from bgbias.params import Study
from bgbias.pool_settings import Backgrounds, Proposal
from bgbias.store import writing

COLUMNS = ("pool", "name", "width", "height", "licence", "sha256")
SHEET_COLUMNS, MOST_SHOWN, SHEET_SIDE = 10, 120, 128
BATCH = 16


def gather(study: Study, pool: str) -> None:
    """Bring the photos that a background set's lists name, from copies at hand or from where they are published."""
    described = _described(study, pool)
    if not plan.gathers(study, pool):
        raise UserError(
            f"The backgrounds '{pool}' name no list (.csv) in params.yaml; there is nothing to gather."
        )
    output, record = study.files.at("gathered", pool=pool), study.files.at("gather_record", pool=pool)
    work = record.parent / ".unfinished"
    with records.node(study, "gather", {"photos": output}, record, pool=pool) as made:
        lists = [p for p in described.pools.values() if p is not None and p.listed]
        # Two pools may be parts of one list.
        wanted = {row.name: row for p in lists for row in listed.read(Path(str(p.source)), p.group)}
        copies = dict.fromkeys(place for p in lists for place in p.copies)
        work.mkdir(parents=True, exist_ok=True)
        others = []
        with writing(output) as store:
            for row, data, same in listed.gather(wanted.values(), copies, work):
                images.decode(data, row.name)
                store.add(row.name, data)
                others += [] if same else [row.name]
        if others:
            progress.say(
                f"{len(others)} photos are other copies than the list's, e.g. '{others[0]}'; pools tell them by sha256"
            )
        made.metrics |= {"photos": len(wanted), "other_copies": len(others)}
    shutil.rmtree(work, ignore_errors=True)


def propose(study: Study, pool: str, device: str = "auto") -> None:
    """Look for an obvious foreground in every photo of a folder; write who would make a background, and a contact sheet."""
    proposal = _described(study, pool).propose
    if proposal is None:
        raise UserError(f"backgrounds.{pool} has no `propose` in params.yaml; there is nothing to propose.")
    outputs = {name: study.files.at(name, pool=pool) for name in ("proposal", "proposal_sheet")}
    with records.node(
        study, "propose", outputs, study.files.at("propose_record", pool=pool), pool=pool
    ) as made:
        found = _unique(proposal.source)
        strange = sorted({*proposal.keep, *proposal.drop} - set(found))
        if strange:
            raise UserError(
                f"backgrounds.{pool}.propose names '{strange[0]}', which {proposal.source} does not hold."
            )
        rows, photos = [], {}
        for name, photo, foreground in _looked_at(study, proposal, found, device):
            kept = name in proposal.keep or (not foreground.obvious and name not in proposal.drop)
            rows.append({"name": name, "kept": kept, **asdict(foreground)})
            photos[name] = photo
        if not rows:
            raise UserError(
                f"{proposal.source} holds no readable pictures; see backgrounds.{pool}.propose in params.yaml."
            )
        frame = pd.DataFrame(rows).sort_values("name", ignore_index=True)
        with replacing(outputs["proposal"]) as temporary:
            frame.to_csv(temporary, index=False)
        _sheet(frame, photos, outputs["proposal_sheet"])
        rejected = int((~frame["kept"]).sum())
        progress.say(
            f"{rejected} of {len(frame)} photos have an obvious foreground: {outputs['proposal_sheet']}"
        )
        made.metrics |= {"photos": len(frame), "rejected": rejected}


def backgrounds(study: Study, pool: str) -> None:
    """Make the three pools of a background set, and refuse photos that stand in two of them."""
    _described(study, pool)
    outputs = {role: study.files.at("pool", pool=pool, role=role) for role in pools.ROLES}
    outputs["table"] = study.files.at("pool_table", pool=pool)
    record = study.files.at("backgrounds_record", pool=pool)
    with records.node(study, "backgrounds", outputs, record, pool=pool) as made:
        rows = []
        role_of: dict[str, str] = {}
        for role, licence, photos in _pools(study, pool):
            with writing(outputs[role]) as store:
                for name, data in photos:
                    height, width = images.decode(data, name).shape[:2]
                    sha256 = hashlib.sha256(data).hexdigest()
                    for identity in (name, sha256):
                        if role_of.setdefault(identity, role) != role:
                            raise UserError(
                                f"The background '{name}' stands in the pools {role_of[identity]} and {role} of {pool}; they must"
                                " be disjoint. Change `source` or `part` under `backgrounds` in params.yaml."
                            )
                    store.add(name, data)
                    rows.append([role, name, width, height, licence, sha256])
        with replacing(outputs["table"]) as temporary:
            pd.DataFrame(rows, columns=list(COLUMNS)).to_csv(temporary, index=False)
        made.metrics |= {f"photos_{role}": sum(r[0] == role for r in rows) for role in pools.ROLES}


def _described(study: Study, pool: str) -> Backgrounds:
    if pool not in study.backgrounds:
        raise UserError(
            f"params.yaml has no backgrounds '{pool}'; there are: {', '.join(study.backgrounds)}."
        )
    return study.backgrounds[pool]


def _pools(study: Study, pool: str) -> Iterator[tuple[str, str, Iterator[tuple[str, bytes]]]]:
    """Role, licence and photos of each pool."""
    described = study.backgrounds[pool]
    if described.propose:
        table = pd.read_csv(study.files.at("proposal", pool=pool), dtype={"name": str})
        found = _unique(described.propose.source)
        kept = [name for name in table.loc[table["kept"], "name"] if name in found]
        for role, names in pools.shared_out(kept, described.propose).items():
            yield role, described.propose.licence, ((name, found[name]) for name in names)
        return
    gathered = study.files.at("gathered", pool=pool)
    for role, source in described.pools.items():
        assert source is not None  # Backgrounds has either all three or a proposal
        yield role, source.licence, pools.photos(source, role, gathered)


def _unique(source: str) -> dict[str, bytes]:
    """The photos of a source by name; two of one name are an error, for one of them would never be looked at."""
    found: dict[str, bytes] = {}
    for name, data in pools.files(source):
        if name in found:
            raise UserError(f"{source} holds two photos called '{name}'; rename one of them.")
        found[name] = data
    return found


def _looked_at(
    study: Study, proposal: Proposal, found: dict[str, bytes], device: str
) -> Iterator[tuple[str, np.ndarray, Foreground]]:
    """Name, photo and foreground of every photo that can be read."""
    if not plugins.load("maskers", study.maskers[proposal.masker].kind).PREDICTS:
        raise UserError(
            f"The masker '{proposal.masker}' predicts nothing and cannot look for foregrounds; name a U²-Net as"
            " `masker` of the proposal in params.yaml."
        )
    masker = predictor(study, proposal.masker, device)
    names = sorted(found)
    batches = [names[i : i + BATCH] for i in range(0, len(names), BATCH)]
    for batch in progress.track(batches, len(batches), f"foregrounds ({BATCH} photos each)"):
        photos = {}
        for name in batch:
            try:
                photos[name] = images.decode(found[name], name)
            except UserError as error:
                progress.say(f"left out: {error}")
        for (name, photo), mask in zip(photos.items(), masker(list(photos.values())), strict=True):
            yield name, images.resize_short(photo, SHEET_SIDE), look(mask)


def _sheet(frame: pd.DataFrame, photos: dict[str, np.ndarray], target: Path) -> None:
    """The rejected photos, the clearest cases first, then the kept ones that came nearest."""
    from bgbias.figures import contact_sheet

    order = frame.sort_values(["kept", "sharpness"], ascending=[True, False]).head(MOST_SHOWN)
    labels = [
        f"{'kept' if kept else 'rejected'}, sharp {sharpness:.2f}"
        for kept, sharpness in zip(order["kept"], order["sharpness"], strict=True)
    ]
    sheet = contact_sheet([photos[n] for n in order["name"]], SHEET_COLUMNS, labels, SHEET_SIDE)
    with replacing(target) as temporary:
        sheet.save(temporary, "PNG")
