"""A model in the shape of BERT, with random weights, written as TorchScript and as ONNX, in FP32 and FP16.

What it says means nothing; what it costs is what the real one costs. Inputs: `ids` and `mask`, INT32 [rows, length].
Outputs: `hidden`, [rows, length, wide], and `pooled`, [rows, wide].
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Shape:
    """Sizes; the defaults are BERT-large's, at the longest sequence that it takes."""

    layers: int = 24
    wide: int = 1024
    heads: int = 16
    inner: int = 4096
    words: int = 30522
    length: int = 512


class Layer(nn.Module):
    """Attention, then a network of its own for each position; each adds to its input, and is normalised."""

    heads: int

    def __init__(self, shape: Shape):
        super().__init__()
        self.heads = shape.heads
        self.query, self.key, self.value, self.projected = (nn.Linear(shape.wide, shape.wide) for _ in range(4))
        self.up, self.down = nn.Linear(shape.wide, shape.inner), nn.Linear(shape.inner, shape.wide)
        self.first, self.second = nn.LayerNorm(shape.wide), nn.LayerNorm(shape.wide)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        x = self.first(x + self.projected(mixed.transpose(1, 2).flatten(2)))
        return self.second(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    """Embedding, layers, and a pooled first position."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.words, self.positions = nn.Embedding(shape.words, shape.wide), nn.Embedding(shape.length, shape.wide)
        self.norm, self.pool = nn.LayerNorm(shape.wide), nn.Linear(shape.wide, shape.wide)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.words(ids) + self.positions.weight)
        # What is masked gets a weight of nearly nothing, in numbers that FP16 has.
        bias = ((1 - mask.to(x.dtype)) * -1e4)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, bias)
        return x, torch.tanh(self.pool(x[:, 0]))


def write(shape: Shape, engine: str, dtype: str, path: str) -> None:
    """Writes it for `engine`, "pytorch" or "onnxruntime", in `dtype`, "fp32" or "fp16", to the file `path`.

    Weights are seeded: all four files have the same ones, as far as their type allows."""
    torch.manual_seed(0)
    module = Bert(shape).eval()
    if dtype == "fp16":
        module = module.half()
    ids, mask = (torch.ones(2, shape.length, dtype=torch.int32) for _ in range(2))
    with torch.inference_mode():
        if engine == "pytorch":
            # Traced: scripts of 24 layers take the interpreter longer and say nothing more.
            torch.jit.trace(module, (ids, mask), check_trace=False).save(path)
            return
        rows = torch.export.Dim("rows", min=1, max=1024)
        torch.onnx.export(
            module, (ids, mask), path, input_names=["ids", "mask"], output_names=["hidden", "pooled"],
            dynamic_shapes=({0: rows}, {0: rows}), dynamo=True, external_data=True, verbose=False)


def config(shape: Shape, engine: str, dtype: str, kind: str, instances: int, batching: bool) -> str:
    """The text of `config.pbtxt`. Everything is said, so that nothing is merged that is not to be."""
    floats = "TYPE_FP16" if dtype == "fp16" else "TYPE_FP32"
    return f"""backend: "{engine}"
max_batch_size: 32
input [
  {{ name: "ids" data_type: TYPE_INT32 dims: [ {shape.length} ] }},
  {{ name: "mask" data_type: TYPE_INT32 dims: [ {shape.length} ] }}
]
output [
  {{ name: "hidden" data_type: {floats} dims: [ {shape.length}, {shape.wide} ] }},
  {{ name: "pooled" data_type: {floats} dims: [ {shape.wide} ] }}
]
instance_group [ {{ kind: KIND_{kind.upper()} count: {instances} }} ]
{"dynamic_batching { }" if batching else ""}
"""
