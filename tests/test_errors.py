"""What a person is told speaks the language that she used."""

from __future__ import annotations

import pytest

from bgbias.errors import UserError, name_arguments


@name_arguments("size")
def asked(said: str, masker: str = "", masks: str = "", class_level: int = 0) -> None:
    raise UserError(said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Say which by --class-level: 0 or 1.", "Say which by class_level=: 0 or 1."),
        ("Name --masks FOLDER, or --size.", "Name masks=FOLDER, or size=."),
        # Neither names of files, nor other commands, nor what is no argument.
        ("photos/IMG--masker.jpg cannot be read", "photos/IMG--masker.jpg cannot be read"),
        ("run: python -m bgbias doctor PHOTOS --masks m", "run: python -m bgbias doctor PHOTOS --masks m"),
    ],
)
def test_options_are_arguments_in_python_and_all_else_stays(said: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        asked(said)
    assert str(error.value) == told
