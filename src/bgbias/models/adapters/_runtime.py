"""ONNX Runtime: a graph that is ready to run on the device that was asked for."""

from typing import Any

from bgbias.compute.device import threads
from bgbias.errors import UserError
from bgbias.models.adapters._library import asked, needed

GPU = "CUDAExecutionProvider"
PROVIDERS = {"auto": "CPUExecutionProvider", "cpu": "CPUExecutionProvider", "cuda": GPU}


def session(graph: str | bytes, whose: str, origin: str, device: str) -> Any:
    """ONNX Runtime's session of a graph, given as a file or as its bytes.

    ``whose`` and ``origin`` name its owner and its file in errors: the library or the GPU is missing, or the file holds no graph.
    """
    needed("onnxruntime", "onnx")
    import onnxruntime

    kind, _, number = device.partition(":")
    if kind not in PROVIDERS:
        raise UserError(f"Unknown device '{device}': use 'cpu', 'cuda' or 'cuda:N'.")
    provider = PROVIDERS[kind]
    if provider not in onnxruntime.get_available_providers():
        raise UserError(
            f"ONNX Runtime was installed without GPUs: --device {device} cannot be; use --device cpu, or"
            " pip install onnxruntime-gpu in its place."
        )
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads()
    # Without TF32, so that both devices compute the same.
    chosen = (provider, {"device_id": number or "0", "use_tf32": "0"}) if provider == GPU else provider
    made = asked(whose, origin, lambda: onnxruntime.InferenceSession(graph, settings, providers=[chosen]))
    # Where the GPU's libraries cannot be loaded, ONNX Runtime goes on with the processor.
    if provider not in made.get_providers():
        raise UserError(
            f"ONNX Runtime cannot use a GPU here: --device {device} cannot be; use --device cpu, or install the CUDA and cuDNN"
            f" that onnxruntime-gpu {onnxruntime.__version__} wants."
        )
    return made
