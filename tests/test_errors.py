"""What a person is told speaks the language that she used."""

import pytest

from bgbias.errors import UserError, name_arguments


@name_arguments("size")
def asked(said: str, masks: str = "", class_level: int = 0) -> None:
    raise UserError(said)


def test_options_are_arguments_in_python_and_all_else_stays() -> None:
    with pytest.raises(UserError) as error:
        asked(
            "IMG--masks.jpg: say which by --class-level: 0 or 1, name --masks FOLDER, or bgbias doctor --masks m"
        )
    assert str(error.value) == (
        "IMG--masks.jpg: say which by class_level=: 0 or 1, name masks=FOLDER, or bgbias doctor --masks m"
    )
