"""BGAugment: every training photo's object stands before a random background (Kobs & Hotho 2022; docs/methods.md, section 2)."""

from bgbias.training.methods import REPLACING, plain

TITLE = "BGAugment"
PLACE = 1
NEEDS = REPLACING
TRAINS = True


class Method(plain.Method):
    """The base loss on photos whose backgrounds were replaced, afresh at every step."""

    replaces_backgrounds = True
