"""A store gives back what was written, whoever reads it in whatever order; files appear whole or not, for whom the umask says;
and weights are read without executing anything in their file.
"""

import json
import os
import pickle
import re
import shlex
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import bgbias
from bgbias import plugins, seeds
from bgbias.compute.workers import make_in_workers
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
def test_forked_readers_do_not_disturb_each_other(store: ImageStore) -> None:
    ids = store.ids * 4
    store.read(ids[0])  # the descriptor is open when the others are made
    found = make_in_workers(lambda number: store.read(ids[number]), len(ids), 2)
    assert list(found) == [PICTURES[n] for n in ids]


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


# Weights.

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}


def test_a_pth_is_what_is_read_however_old_it_is_and_whatever_lies_beside_it(tmp_path: Path) -> None:
    published = tmp_path / "net.pth"
    save_file({"another": torch.ones(1)}, tmp_path / "net.safetensors")
    torch.save(STATE, published)
    os.utime(published, (1, 1))  # as `cp -p` leaves it
    torch.testing.assert_close(state_dicts.read_state_dict(published, "net"), STATE, rtol=0, atol=0)


class Malicious:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (Path("executed"),))


def test_nothing_in_a_pth_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.pth").write_bytes(pickle.dumps({"a": Malicious()}))
    with pytest.raises(UserError, match=r"net\.pth cannot be read as weights of net"):
        state_dicts.read_state_dict(tmp_path / "net.pth", "net")
    assert not (tmp_path / "executed").exists()


NET = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
LIGHTNING = {
    "state_dict": NET.state_dict(),
    "pytorch-lightning_version": "2.1",
    "callbacks": {"where": Path()},
}


def _onnx(path: Path) -> None:
    graph = onnx.helper.make_graph([], "net", [], [])
    onnx.save(onnx.helper.make_model(graph, producer_name="pytorch"), path)


FOREIGN: dict[str, tuple[Callable[[Path], Any], str]] = {
    "network": (lambda path: torch.save(NET, path), r"a whole network as a pickle \(torch.nn.*Sequential\)"),
    "old network": (lambda path: torch.save(NET, path, _use_new_zipfile_serialization=False),
                    "Python objects beside tensors"),
    "TorchScript": (lambda path: torch.jit.trace(NET, torch.zeros(1, 3, 8, 8)).save(str(path)),
                    "a network as TorchScript"),
    "ONNX": (_onnx, "an ONNX graph"),
    "Lightning": (lambda path: torch.save(LIGHTNING, path), "a checkpoint of PyTorch Lightning"),
    "list": (lambda path: torch.save([1, 2], path), "a list, not a state dict"),
    "no tensor": (lambda path: torch.save({"epoch": 3}, path), "'epoch' is no tensor"),
    "page": (lambda path: path.write_text("<!DOCTYPE html><html></html>"), "a page of HTML"),
    "pointer": (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1"), "git lfs pull"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_state_dict_is_told_by_what_it_is(tmp_path: Path, kind: str) -> None:
    write, words = FOREIGN[kind]
    path = tmp_path / "mine.pth"
    write(path)
    with pytest.raises(UserError, match=words) as told:
        state_dicts.read_state_dict(path, "net")
    assert "torch.save(model.state_dict()" in str(told.value)
    with pytest.raises(UserError, match="models that bgbias trained") as loaded:
        bgbias.load(path)
    for said in (str(told.value), str(loaded.value)):
        assert not re.search(r"delete|weights_only|damaged|object at 0x", said)
    assert path.exists()


def test_a_checkpoint_of_a_training_is_told_with_the_command_that_gets_its_weights(tmp_path: Path) -> None:
    path = tmp_path / "last.ckpt"
    torch.save({"epoch": 3, "state_dict": STATE}, path)
    with pytest.raises(UserError, match="whose weights are its 'state_dict'") as told:
        state_dicts.read_state_dict(path, "net")
    command = str(told.value).partition("'state_dict': ")[2]
    python, option, lines = shlex.split(command)
    assert (python, option) == ("python", "-c")
    exec(lines)
    assert state_dicts.read_state_dict(tmp_path / "last_weights.pth", "net").keys() == STATE.keys()


def test_a_users_own_tensors_and_models_of_other_versions_are_not_to_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    save_file(STATE, path)
    with pytest.raises(UserError, match="not what builds a network of them") as own:
        bgbias.load(path)
    header = {"backbone": "tiny", "params": "{}", "dim": "8", "freeze_batch_norm": "true"}
    save_file(STATE, path, {"bgbias": json.dumps(header)})
    with pytest.raises(UserError, match="does not fit this version of bgbias") as other:
        bgbias.load(path)
    assert "delete" not in f"{own.value}{other.value}"
