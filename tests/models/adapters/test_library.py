"""What libraries and the hub say when something is not there becomes the step to take."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from huggingface_hub.errors import GatedRepoError, LocalEntryNotFoundError, RepositoryNotFoundError

from bgbias.errors import UserError
from bgbias.models.adapters._library import check_name, import_extra, load_source

PAGE = "https://huggingface.co/someone/hers"


def of_the_hub(kind: type[Exception]) -> Exception:
    """An error of the hub's, as transformers hands it on: behind an OSError of its own."""
    answer = Mock(headers={}, request=None)
    try:
        try:
            raise kind("refused", response=answer) if kind is not LocalEntryNotFoundError else kind("no copy")
        except Exception as error:
            raise OSError("We couldn't load it.\nAnd more.") from error
    except OSError as error:
        return error


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (GatedRepoError, rf"hers is gated: accept its terms at {PAGE}, then `hf auth login`"),
        (
            RepositoryNotFoundError,
            rf"hers is not to be found at {PAGE} \(We couldn't load it\). Correct its name",
        ),
        (
            LocalEntryNotFoundError,
            rf"hers could not be fetched from {PAGE}, and there is no copy .*--weights",
        ),
    ],
)
def test_errors_of_the_hub_are_told_as_steps(kind: type[Exception], said: str) -> None:
    with pytest.raises(UserError, match=said):
        load_source("hers", PAGE, Mock(side_effect=of_the_hub(kind)))


def test_a_damaged_file_is_named() -> None:
    with pytest.raises(UserError, match=r"hers could not be loaded: no zip. Make or copy her.onnx again"):
        load_source("hers", "her.onnx", Mock(side_effect=ValueError("no zip")))


def test_a_model_that_a_store_does_not_have_is_told_with_the_stores_step() -> None:
    with pytest.raises(UserError, match=r"hers could not be loaded: not found. Name its store."):
        load_source("hers", "models:/hers@best", Mock(side_effect=ValueError("not found")), "Name its store.")


def test_a_missing_library_is_named_with_its_extra() -> None:
    with pytest.raises(UserError, match=r"no_such_library is not installed: pip install 'bgbias\[models\]'"):
        import_extra("no_such_library", "models")
    assert import_extra("math", "models").pi > 3


def test_near_names_are_offered_whatever_their_letters_size() -> None:
    check_name("ViT-B-32", ["ViT-B-32"], "model", "list")
    with pytest.raises(UserError, match=r"no model 'vit-b-32'. Did you mean ViT-B-32\? All of them: list"):
        check_name("vit-b-32", ["ViT-B-32", "RN50"], "model", "list")
    with pytest.raises(UserError, match=r"no model 'zzz'. All of them: list"):
        check_name("zzz", ["ViT-B-32"], "model", "list")
