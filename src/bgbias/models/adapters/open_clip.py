"""Image towers of OpenCLIP: ``open_clip:ViT-B-32/laion2b_s34b_b79k``, ``open_clip:hf-hub:<owner>/<name>`` or a folder of
that form, ``open_clip:local-dir:<folder>``.

The embedding is ``encode_image``; photos are prepared as the weights' own configuration says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bgbias.compute.lazy import Tensor, nn
from bgbias.errors import UserError
from bgbias.models.adapters import LOOKS, NORMALISES, Adapted, Options
from bgbias.models.adapters._library import PAGE, asked, named, needed, silence
from bgbias.models.adapters._network import adapted, fill, guess_activation
from bgbias.models.adapters._preparation import of_library
from bgbias.models.look import Interpolation, Look

TAKES = "<model>/<pretrained tag>, hf-hub:<owner>/<name> or local-dir:<folder>"
OPTIONS = LOOKS | NORMALISES | {"weights"}
HUB, FOLDER = "hf-hub:", "local-dir:"
LISTING = 'python -c "import open_clip; print(open_clip.list_pretrained())"'


def adapt(which: str, options: Options) -> Adapted:
    """The image tower; the text tower is loaded with it, as OpenCLIP does, and not used."""
    open_clip = needed("open_clip", "open-clip")
    name, is_published = f"open_clip:{which}", options.weights is None
    place, tag = which, ""
    told: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    more: dict[str, Any] = {}
    if which.startswith((HUB, FOLDER)):
        source = which.removeprefix(FOLDER) if which.startswith(FOLDER) else PAGE + which.removeprefix(HUB)
    else:
        place, tag, source, told, more = _built_in(which, name, is_published)
        quick = f"{which}-quickgelu"
        if options.weights is not None and quick in open_clip.list_models():
            guesses = (guess_activation(name, options.weights, f"open_clip:{quick}"),)

    def create() -> Any:
        here = place
        if which.startswith(HUB) and not is_published:  # its configuration alone is fetched
            from huggingface_hub import hf_hub_download

            config = hf_hub_download(which.removeprefix(HUB), "open_clip_config.json")
            here = f"{FOLDER}{Path(config).parent}"
        return open_clip.create_model(
            here,
            tag if tag and is_published else None,
            load_weights=is_published,
            require_pretrained=is_published,
            force_image_size=options.size,
            pretrained_text=False,
            **more,
        )

    with silence():
        model = asked(name, source, create)
    if options.weights is not None:
        told = (*fill(model.visual, options.weights, name, lambda state: _converted(model, state)), *told)
    else:
        told = (f"weights: as published ({source})", *told)

    class ImageTower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.visual = model.visual

        def forward(self, x: Tensor) -> Tensor:
            found = self.visual(x)
            return found[0] if isinstance(found, tuple) else found  # CoCa's tower gives its tokens, too

    config = model.visual.preprocess_cfg
    embedding = "embedding: encode_image(), the features that are compared with texts"
    if pooling := getattr(model.visual, "pool_type", ""):
        embedding += (
            f" ({pooling} pooling{', projected' * (getattr(model.visual, 'proj', None) is not None)})"
        )
    mode, colours, size = config["resize_mode"], (config["mean"], config["std"]), config["size"]
    sides = (size, size) if isinstance(size, int) else size
    interpolation: Interpolation = "bilinear" if config["interpolation"] == "bilinear" else "bicubic"
    look = Look(sides[0], sides[0], mode == "squash", interpolation, "even")
    preparation = of_library(
        name, options, "OpenCLIP's configuration", sides, look, colours, has_borders=mode == "longest"
    )
    return adapted(name, ImageTower(), preparation, options, told, embedding, guesses=guesses)


def _built_in(
    which: str, name: str, is_published: bool
) -> tuple[str, str, str, tuple[str, ...], dict[str, Any]]:
    """Architecture and tag, where the weights come from, what was settled on the way, and options of OpenCLIP that it needs."""
    import open_clip

    architecture, _, tag = which.partition("/")
    named(architecture, open_clip.list_models(), "model of OpenCLIP", LISTING)
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if tag:
        named(tag, tags, f"pretrained tag of {architecture}", " ".join(tags))
    elif is_published:
        raise UserError(
            f"{name} does not say which weights: open_clip:{architecture}/<tag> of {' '.join(tags) or 'none'}."
        )
    published = open_clip.get_pretrained_cfg(architecture, tag) if tag else {}
    quick = bool(published.get("quick_gelu"))
    own = bool(open_clip.get_model_config(architecture).get("quick_gelu"))
    told = (f"activation: QuickGELU, as '{tag}' was trained",) if quick else ()
    if tag and own and not quick:
        raise UserError(
            f"'{tag}' was trained without QuickGELU; name open_clip:{architecture.removesuffix('-quickgelu')}/{tag}."
        )
    kept = {
        key: published[key] for key in ("mean", "std", "interpolation", "resize_mode") if key in published
    }
    hub = published.get("hf_hub", "").strip("/")
    source = f"{PAGE}{hub}" if hub else published.get("url", "")
    return architecture, tag, source, told, {"force_quick_gelu": quick, "force_preprocess_cfg": kept}


def _converted(model: Any, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without ``visual.`` and positions of another size as this model's, as far as OpenCLIP knows how."""
    from open_clip.model import resize_pos_embed

    whole = {f"visual.{name}": tensor for name, tensor in state.items()}
    resize_pos_embed(whole, model)
    return {name.removeprefix("visual."): tensor for name, tensor in whole.items()}
