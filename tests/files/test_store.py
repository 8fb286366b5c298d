"""A store gives back what was written, whoever reads it in whatever order; files appear whole or not, for whom the umask says."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from project import PATIENCE

from bgbias import plugins, seeds
from bgbias.errors import UserError
from bgbias.files import atomic, state_dicts
from bgbias.files.store import ImageStore, writing
from bgbias.models import model as models

PICTURES = {f"class/{n:03d} größe.jpg": seeds.generator("bytes", n).bytes(1000 + 13 * n) for n in range(50)}


def write(path: Path, pictures: Iterable[tuple[str, bytes]]) -> None:
    with writing(path) as new:
        for name, data in pictures:
            new.add(name, data)


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    write(tmp_path / "photos.zip", PICTURES.items())
    return ImageStore(tmp_path / "photos.zip")


def test_file_is_a_plain_zip_with_the_same_bytes_every_time(store: ImageStore, tmp_path: Path) -> None:
    assert (len(store), store.ids) == (50, list(PICTURES))
    with zipfile.ZipFile(store.path) as archive:
        assert archive.testzip() is None
        assert {i.filename: archive.read(i) for i in archive.infolist()} == PICTURES
        facts = {(i.compress_type, i.date_time) for i in archive.infolist()}
        assert facts == {(zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0))}
    first = store.path.read_bytes()
    write(store.path, PICTURES.items())
    assert store.path.read_bytes() == first


# In a process without threads, as forks of others may wait for ever.
FORKED_READERS = """
import multiprocessing, pathlib, sys
from bgbias.files.store import ImageStore

store = ImageStore(pathlib.Path(sys.argv[1]))
store.read(store.ids[0])  # the parent's descriptor is open when the children are made
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(store.read, store.ids * 4, chunksize=1)
sys.stdout.buffer.write(b"".join(found))
"""


def test_forked_readers_do_not_disturb_each_other(store: ImageStore) -> None:
    command = [sys.executable, "-c", FORKED_READERS, str(store.path)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    assert found == b"".join(PICTURES[n] for n in store.ids * 4)


def test_unknown_id_missing_and_damaged_stores_are_named(store: ImageStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"photos\.zip has no image 'nobody'"):
        store.read("nobody")
    with pytest.raises(UserError, match=r"absent\.zip is missing; `snakemake"):
        ImageStore(tmp_path / "absent.zip")
    store.path.write_bytes(store.path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"photos\.zip is damaged"):
        ImageStore(store.path)


def test_interrupted_writing_and_an_id_twice_leave_the_old_store_alone(store: ImageStore) -> None:
    before = store.path.read_bytes()
    with pytest.raises(UserError, match=r"Two pictures are called 'a\.jpg'"):
        write(store.path, [("a.jpg", b"1"), ("a.jpg", b"2")])

    def interrupted() -> Iterator[tuple[str, bytes]]:
        yield "half.jpg", b"x"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(store.path, interrupted())
    assert store.path.read_bytes() == before
    assert [p.name for p in store.path.parent.iterdir()] == ["photos.zip"]


def test_weights_and_models_can_be_read_by_whom_other_files_can(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        params = plugins.load("backbones", "tiny").Params()
        models.save(models.build_model("tiny", params, 8, torch.Generator()), tmp_path / "model.safetensors")
        state_dicts.write_state_dict({"a": torch.zeros(3)}, tmp_path / "weights.safetensors")
        atomic.write_json(tmp_path / "record.json", {})
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()] == [0o640] * 3
