"""PyTriton: the Triton server of NVIDIA in front, Python behind it."""

import os

import numpy as np
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig

from onnx_model import BATCH, NAME, PORT, TUNED, WORKERS, Model


def tensor(spec):
    """The declaration of an input or output, without the dimension of the batch."""
    # A dimension that is open has a name in ONNX.
    shape = tuple(size if isinstance(size, int) else -1 for size in spec.shape[1:])
    return Tensor(name=spec.name, dtype=np.float32, shape=shape)


def inference(model):
    """The function that Triton calls with a batch."""

    @batch
    def infer(**inputs):
        return {model.output.name: model(inputs[model.input.name])}

    return infer


if __name__ == "__main__":
    models = [Model() for _ in range(WORKERS)]
    ports = {"http_port": PORT, "grpc_port": int(os.environ["PEER_SECOND_PORT"])}
    config = TritonConfig(http_address="127.0.0.1", **ports, allow_metrics=not TUNED)
    settings = (
        ModelConfig(max_batch_size=BATCH, batcher=DynamicBatcher()) if TUNED else ModelConfig()
    )
    with Triton(config=config) as triton:
        triton.bind(
            model_name=NAME,
            infer_func=[inference(model) for model in models],
            inputs=[tensor(models[0].input)],
            outputs=[tensor(models[0].output)],
            config=settings,
        )
        triton.serve()
