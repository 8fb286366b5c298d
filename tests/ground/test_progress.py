"""Times as people say them."""

from __future__ import annotations

import pytest

from bgbias import progress


@pytest.mark.parametrize(("seconds", "said"), [(99.4, "99 s"), (720.0, "12 min"), (11100.0, "3 h 05 min")])
def test_times_are_said_as_people_say_them(seconds: float, said: str) -> None:
    assert progress.minutes(seconds) == said
