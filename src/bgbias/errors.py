"""What a person is told when the input, not the code, is at fault."""


class UserError(Exception):
    """Something the user can put right: the text names the file, image or key, and the next command to type."""
