"""PyTorch's optimizers without its compiler, whose import costs a training node as much as that of torch itself.

Their methods are wrapped so that the compiler, imported on their first call, can be told to leave them alone. Here they are the
same methods, unwrapped.
"""

import inspect
from typing import Any

import torch

WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")


def _unwrap(kind: type[torch.optim.Optimizer]) -> Any:
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in WRAPPED}
    # What the wrapper of ``step`` does besides.
    plain["step"] = torch.no_grad()(plain["step"])
    return type(kind.__name__, (kind,), plain)


Adam = _unwrap(torch.optim.Adam)
AdamW = _unwrap(torch.optim.AdamW)
RMSprop = _unwrap(torch.optim.RMSprop)
SGD = _unwrap(torch.optim.SGD)
