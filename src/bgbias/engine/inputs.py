"""What several nodes read, and the settings that go with it: photos, masks, backgrounds, weights, a model."""

from collections.abc import Collection, Iterable
from typing import Any

from bgbias.engine.node import StepOutput, files_of, step
from bgbias.files.checksums import Content
from bgbias.study import Study, plan
from bgbias.study.cell import UNTRAINED, Cell
from bgbias.study.named import NamedEntry
from bgbias.study.sources import parts_of


def photos(dataset: str) -> dict[str, StepOutput]:
    return files_of(step("index", dataset=dataset), "table", "photos")


def tables(*datasets: str) -> dict[str, StepOutput]:
    return {f"table {name}": StepOutput(step("index", dataset=name), "table") for name in datasets}


def of_models(cells: Iterable[Cell], name: str, *outputs: str) -> dict[str, StepOutput]:
    """Outputs of the step ``name`` of each of these models, as ``<output> <model>``."""
    return {f"{output} {c.name}": StepOutput(step(name, cell=c), output) for c in cells for output in outputs}


def masks(study: Study, dataset: str) -> dict[str, StepOutput]:
    """The masks of a dataset's own masker."""
    masker = study.datasets[dataset].masker
    return files_of(step("masks", dataset=dataset, masker=masker), "masks", "mask_table")


def pools(study: Study, dataset: str, *roles: str) -> dict[str, StepOutput]:
    """Pools of the backgrounds that a dataset names."""
    pool = study.datasets[dataset].backgrounds
    return files_of(step("backgrounds", pool=pool), *(f"{role}_pool" for role in roles))


def textures(study: Study, dataset: str, backbone: str) -> dict[str, StepOutput]:
    """Textures of a dataset's photos, as large as a backbone sees these."""
    return files_of(step("textures", dataset=dataset, backbone=backbone), "textures")


def album(
    study: Study, dataset: str, needs: Collection[str], *roles: str, backbone: str = ""
) -> dict[str, StepOutput]:
    """Photos, with what is needed of masks, backgrounds (these pools) and textures: what an ``Album`` opens."""
    return (
        photos(dataset)
        | (masks(study, dataset) if "masks" in needs else {})
        | (pools(study, dataset, *roles) if "backgrounds" in needs else {})
        | (textures(study, dataset, backbone) if "textures" in needs else {})
    )


def parts(study: Study, dataset: str) -> dict[str, StepOutput]:
    return {p: StepOutput(step("fetch", dataset=dataset, part=p), "part") for p in parts_of(study, dataset)}


def truth(study: Study, dataset: str) -> dict[str, StepOutput]:
    """Where the dataset says where its objects are."""
    if plan.truth(study, dataset) == "boxes":
        return {f"fetched {name}": part for name, part in parts(study, dataset).items()}
    return files_of(step("index", dataset=dataset), "truth")


def weights(network: NamedEntry) -> dict[str, StepOutput]:
    """The fetched weights that a network starts from; nothing where they are random or a file of one's own."""
    return files_of(step("weights", owner=network.owner), "weights") if network.is_fetched else {}


def backbone_weights(study: Study, cell: Cell) -> dict[str, StepOutput]:
    """What a cell's backbone begins with: what its pretraining made, or weights that are fetched."""
    if before := plan.pretraining(study, cell.backbone):
        dataset = before.params().dataset or cell.dataset
        run = cell.run if dataset == cell.dataset else cell.seed
        return files_of(step("pretrain", backbone=cell.backbone, dataset=dataset, run=str(run)), "pretrained")
    return weights(plan.backbone(study, cell.backbone))


def model(study: Study, cell: Cell) -> dict[str, StepOutput]:
    """A cell's network: the trained one, or what its backbone comes with."""
    if plan.trains(study, cell):
        return files_of(step("train", cell=cell), "model")
    return backbone_weights(study, cell)


def backbone(study: Study, cell: Cell) -> dict[str, Any]:
    """Settings of a node: the cell's backbone; what its pretraining made is that node's product."""
    if plan.pretraining(study, cell.backbone):
        return without_weights(study, cell.backbone)
    return backbone_settings(study, cell.backbone)


def backbone_settings(study: Study, name: str) -> dict[str, Any]:
    """Settings of a node: a backbone before any pretraining, whose own weights are known by content. Fetched ones
    are known by the node that brings them, whatever mirror they are from.
    """
    network = plan.backbone(study, name)
    if network.is_fetched:
        return without_weights(study, name)
    weights = {"weights_sha256": Content(network.weights, is_file=True)} if network.weights else {}
    return {"backbone": {k: v for k, v in study.backbones[name].items() if k != "pretraining"} | weights}


def without_weights(study: Study, name: str) -> dict[str, Any]:
    """Settings of a node: a backbone, but for what sees no photo or is another node's product."""
    of_nodes = ("weights", "sha256", "pretraining")  # whatever comes of these is a node's product
    return {"backbone": {k: v for k, v in study.backbones[name].items() if k not in of_nodes}}


def network_settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Settings: what a cell's network is, where no training's digest says it. A cell that is several networks is an error."""
    plan.check_is_network(study, cell)
    if plan.trains(study, cell):
        return {}
    layer = {"embedding_dim": study.train.embedding_dim} if cell.method == UNTRAINED else {}
    return backbone(study, cell) | layer


def mask_policy(study: Study) -> dict[str, Any]:
    """Settings: how masks are used. Soft masks are used as they are, and read no threshold."""
    soft = study.mask_policy.kind == "soft"
    return {"mask_policy": study.mask_policy.model_dump(exclude={"kind", "threshold"} if soft else None)}
