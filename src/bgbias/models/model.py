"""The embedding model: trunk, global average pooling, one linear layer, unit length (docs/methods.md, section 1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as as_safetensors
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bgbias import plugins
from bgbias.errors import UserError
from bgbias.files import state_dicts
from bgbias.files.atomic import replacing
from bgbias.models import backbones
from bgbias.models.preprocess import Preprocess
from bgbias.settings import Strict

HEADER = "bgbias"
OWN = (
    "What is loaded here are models that bgbias trained (model.safetensors). Of a network of your own, a state dict can be named"
    " as `weights` of its backbone in params.yaml, and bgbias.embed takes any function from photos to vectors (docs/python.md)."
)


class EmbeddingModel(nn.Module):
    """From normalised photos to unit vectors; knows its backbone's facts and whether batch norm is frozen.

    A frozen batch norm normalises with its stored statistics in training too; its gain and offset stay
    trainable.
    """

    def __init__(
        self, backbone: str, params: Strict, trunk: nn.Module, embedder: nn.Linear, freeze_batch_norm: bool
    ) -> None:
        super().__init__()
        facts = backbones.facts(backbone, params)
        self.backbone, self.params = backbone, params
        self.preprocess: Preprocess = facts.preprocess
        self.input_size, self.resize = facts.input_size, facts.resize
        self.freeze_batch_norm = freeze_batch_norm
        self.trunk, self.embedder = trunk, embedder
        self.neck: nn.Module | None = None
        self.head_norm: nn.BatchNorm1d | None = None
        self.neck_name, self.neck_params = "", Strict()
        self.auxiliary_norms: tuple[str, ...] = ()
        """Kinds of photos that had batch norms of their own in training (models/norms.py); those of clean photos are here."""

    def add_neck(self, name: str, params: Strict) -> nn.Module:
        """Put the neck ``necks/<name>.py`` between trunk and pooling and return it; it is saved and loaded with the model."""
        self.neck_name, self.neck_params = name, params
        self.neck = plugins.load("necks", name).build(params)
        return self.neck

    def add_head_norm(self) -> nn.BatchNorm1d:
        """Put a batch norm, never frozen, before the embedding layer, and return it."""
        self.head_norm = nn.BatchNorm1d(self.embedder.in_features)
        return self.head_norm

    @property
    def dim(self) -> int:
        """Length of an embedding."""
        return self.embedder.out_features

    def features(self, x: Tensor) -> Tensor:
        """The trunk's feature map [B, channels, h, w] of normalised photos [B, 3, H, W]."""
        return self.trunk(x)

    def pooled(self, x: Tensor) -> Tensor:
        """Mean features at unit length [B, channels], float32: what the backbone knows by itself."""
        return F.normalize(self._mean(self.features(x)), dim=1)

    def forward(self, x: Tensor) -> Tensor:
        """Embeddings [B, dim] of unit length, float32, of normalised photos [B, 3, H, W]."""
        return self.embed_features(self.pooled_map(x))

    def pooled_map(self, x: Tensor) -> Tensor:
        """The feature map [B, channels, h, w] as it is pooled for an embedding: behind the neck, if there is one."""
        features = self.features(x)
        return features if self.neck is None else self.neck(features)

    def embed_features(self, features: Tensor) -> Tensor:
        """Embeddings [B, dim] of unit length, float32, of feature maps [B, channels, h, w] as they are pooled."""
        projected = self.projected(features)
        with torch.autocast(projected.device.type, enabled=False):
            return F.normalize(projected, dim=1)

    def projected(self, features: Tensor) -> Tensor:
        """What ``embed_features`` brings to unit length, float32 [B, dim]: linear in the maps (evaluating, with a head norm)."""
        mean = self._mean(features)
        # Only the trunk gains by mixed precision; rounding the embedding would reorder close neighbours.
        with torch.autocast(mean.device.type, enabled=False):
            return self.embedder(mean if self.head_norm is None else self.head_norm(mean))

    def embed_by_features(self) -> EmbeddingModel:
        """Take the embedding layer away: embeddings are ``pooled`` from now on."""
        channels = self.embedder.in_features
        like = self.embedder.weight
        self.embedder = nn.Linear(channels, channels, bias=False, device=like.device, dtype=like.dtype)
        nn.init.eye_(self.embedder.weight)
        return self

    def train(self, mode: bool = True) -> EmbeddingModel:
        """Training or evaluation mode; a frozen batch norm stays in evaluation mode."""
        super().train(mode)
        if self.freeze_batch_norm:
            for module in self.modules():
                if isinstance(module, _BatchNorm) and module is not self.head_norm:
                    module.eval()
        return self

    def _mean(self, features: Tensor) -> Tensor:
        return features.to(self.embedder.weight.dtype).mean(dim=(2, 3))


def build_model(
    backbone: str,
    params: Strict,
    dim: int,
    generator: torch.Generator,
    freeze_batch_norm: bool = True,
    weights: Path | None = None,
) -> EmbeddingModel:
    """A fresh model: trunk with the state dict in the file ``weights`` (random without), embedding layer random.

    All that is random comes from ``generator`` (a CPU generator): the same one gives the same model, whatever
    ran before.
    """
    seed = int(torch.randint(2**62, (), generator=generator))
    trunk = _build_trunk(backbone, params, seed)
    if weights is not None:
        backbones.load(trunk, weights, backbone)
    channels = backbones.facts(backbone, params).channels
    return EmbeddingModel(backbone, params, trunk, linear(channels, dim, generator), freeze_batch_norm)


def save(model: EmbeddingModel, path: Path, metadata: dict[str, Any] | None = None) -> None:
    """Write the weights and, in the file's header, what builds the model again and ``metadata`` (JSON)."""
    header = {
        "backbone": model.backbone,
        "params": model.params.model_dump_json(),
        "dim": str(model.dim),
        "freeze_batch_norm": json.dumps(model.freeze_batch_norm),
        "metadata": json.dumps(metadata or {}, sort_keys=True),
    }
    if model.neck is not None:
        header |= {"neck": model.neck_name, "neck_params": model.neck_params.model_dump_json()}
    if model.head_norm is not None:
        header["head_norm"] = json.dumps(True)
    if model.auxiliary_norms:
        header["auxiliary_norms"] = json.dumps(model.auxiliary_norms)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    # One entry: safetensors writes several in an order that changes from run to run.
    with replacing(path) as temporary:
        # Its own files are for their owner alone.
        temporary.write_bytes(as_safetensors(state, {HEADER: json.dumps(header, sort_keys=True)}))


def load(path: Path, device: str = "cpu") -> EmbeddingModel:
    """The saved model in evaluation mode; the backbone's own weights file is not needed.

    A missing file, or one that holds something else, is an error that names it.
    """
    header = _read_header(path)
    if "backbone" not in header:
        raise UserError(f"{path} holds tensors, but not what builds a network of them. {OWN}")
    try:
        name = header["backbone"]
        params = plugins.load("backbones", name).Params.model_validate_json(header["params"])
        dim, frozen = int(header["dim"]), bool(json.loads(header["freeze_batch_norm"]))
        trunk = _build_trunk(name, params, seed=0)
        embedder = linear(backbones.facts(name, params).channels, dim)
        model = EmbeddingModel(name, params, trunk, embedder, frozen)
        if neck := header.get("neck"):
            neck_params = plugins.load("necks", neck).Params.model_validate_json(header["neck_params"])
            model.add_neck(neck, neck_params)
        if json.loads(header.get("head_norm", "false")):
            model.add_head_norm()
        model.auxiliary_norms = tuple(json.loads(header.get("auxiliary_norms", "[]")))
        model.load_state_dict(load_file(path), strict=True)
    except (KeyError, ValidationError, RuntimeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise UserError(
            f"{path} does not fit this version of bgbias ({reason}). Load it with the version that saved it; or move it away"
            " and train it anew, a study's by `snakemake --cores all`."
        ) from error
    return model.to(device).eval()


def metadata(path: Path) -> dict[str, Any]:
    """What ``save`` was given to keep with the weights."""
    return json.loads(_read_header(path).get("metadata", "{}"))


def _build_trunk(backbone: str, params: Strict, seed: int) -> nn.Module:
    """The backbone's trunk; building draws from the global generator, which is lent a seed and put back."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return backbones.build(backbone, params)


def linear(channels: int, dim: int, generator: torch.Generator | None = None) -> nn.Linear:
    """A linear layer, drawn from ``generator`` by PyTorch's own rule; without one it is to be filled. (``skip_init`` would make
    it empty, and import a second of symbolic algebra.)
    """
    with torch.random.fork_rng(devices=[]):
        layer = nn.Linear(channels, dim)
    if generator is not None:
        bound = channels**-0.5
        for tensor in (layer.weight, layer.bias):
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
    return layer


def _read_header(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise UserError(
            f"The model {path} is missing. (A study's models are trained by `snakemake --cores all`.)"
        )
    try:
        with safe_open(path, "pt") as file:
            return dict(json.loads((file.metadata() or {}).get(HEADER, "{}")))
    except SafetensorError as error:
        if kind := state_dicts.kind(path):
            raise UserError(f"{path} is {kind}. {OWN}") from error
        raise UserError(
            f"{path} is damaged, or no model of bgbias ({error}). Get it again; delete a study's, and"
            " `snakemake --cores all` trains it anew."
        ) from error
