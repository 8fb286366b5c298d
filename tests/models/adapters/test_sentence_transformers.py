"""Models of sentence-transformers embed as their own ``encode`` does it with the photos themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from brought_models import assert_equal, ours, photos
from PIL import Image
from small_transformers import clip_folder

from bgbias.errors import UserError
from bgbias.models.adapters import Options, load

CPU = Options(device="cpu")


@pytest.mark.parametrize("spec", ["sentence-transformers:{}", "sentence_transformers:{}"])
def test_vectors_are_those_of_encode(spec: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    folder = clip_folder(tmp_path)
    found = load(spec.format(folder), CPU)
    expected = SentenceTransformer(str(folder), device="cpu").encode([Image.fromarray(p) for p in photos()])
    # Its resize by torchvision is up to a grey level beside Pillow's.
    assert_equal(ours(found), expected, 0.1)
    assert (found.look.size, found.look.resize, found.look.interpolation) == (32, 36, "bicubic")
    assert found.network is None


def test_what_is_seen_is_prepared_to_the_end(tmp_path: Path) -> None:
    """The processor would enlarge and crop it once more; to its owner it is as it was."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(clip_folder(tmp_path)), device="cpu")
    found = load(model)
    views = [Image.fromarray(found.look(photo)) for photo in photos()]
    processor = model[0].processor.image_processor
    again = model[0].model.get_image_features(
        processor(views, do_resize=False, do_center_crop=False, return_tensors="pt")["pixel_values"]
    )
    assert_equal(ours(found), again.pooler_output.detach().numpy())
    assert processor.do_resize
    assert processor.do_center_crop


def test_models_that_are_not_there_or_embed_no_images_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        UserError, match=r"could not be fetched from https://huggingface.co/sentence-transformers/none"
    ):
        load("sentence-transformers:none", CPU)
    with pytest.raises(UserError, match="embeds text, no images; choose another one"):
        load(SentenceTransformer(modules=[BoW(["mug", "house"])]), CPU)
    (tmp_path / "w.pth").touch()
    with pytest.raises(UserError, match=r"The folder ./none is missing"):
        load("sentence-transformers:./none", CPU)
    with pytest.raises(
        UserError, match=r"--weights means nothing to sentence-transformers:none, which takes no options"
    ):
        load("sentence-transformers:none", Options(weights=tmp_path / "w.pth"))
