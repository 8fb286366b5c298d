"""Code that a test edits while its process lives."""

from bgbias.files import code


def look_again() -> None:
    """Forget what was read of it."""
    for function in vars(code).values():
        if getattr(function, "__module__", "") == code.__name__ and hasattr(function, "cache_clear"):
            function.cache_clear()
