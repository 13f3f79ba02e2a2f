"""Writes the models of the cases, with random weights: `models.py KIND FOLDER`, by an interpreter that has what
requirements.txt names.

`distilbert` is a folder that classifies texts, of DistilBERT's size. `bert-64` and `bert-128` are a small BERT for that
many tokens, in a repository for each setting with a model for each form. `nets` are networks for images, in a
repository for each with a model for each form. `mean` is a graph that does next to nothing with a large input.
"""

import json
import shutil
import sys
from pathlib import Path

import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gpu"))
import bert  # noqa: E402
import nets_models  # noqa: E402

# As an exported graph is: what is not said is optimised.
AS_EXPORTED = "optimization { graph { level: 2 } }\n"
SETTINGS = {"base": (1, False), "db": (1, True), "ig2": (2, False), "ig2-db": (2, True)}


class Classifier(nn.Module):
    """Two classes by the first token."""

    def __init__(self, shape):
        super().__init__()
        self.body, self.classes = bert.Bert(shape), nn.Linear(shape.wide, 2)

    def forward(self, input_ids, attention_mask):
        """Their scores. Texts are of any length."""
        body = self.body
        x = body.norm(body.words(input_ids) + body.positions.weight[: input_ids.shape[1]])
        bias = ((1 - attention_mask.to(x.dtype)) * -1e4)[:, None, None, :]
        for layer in body.layers:
            x = layer(x, bias)
        return self.classes(x[:, 0])


def distilbert(folder):
    """The folder of a fixture with a larger graph: six layers, 768 wide."""
    shape = bert.Shape(6, 768, 12, 3072, 30522, 512)
    torch.manual_seed(0)
    source = ROOT / "tests/fixtures/pipelines/sst2/folder"
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    said = json.loads((source / "tokenizer_config.json").read_text()) | {"model_max_length": shape.length}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    said = json.loads((source / "config.json").read_text()) | {
        "dim": shape.wide, "hidden_dim": shape.inner, "n_heads": shape.heads, "n_layers": shape.layers,
        "max_position_embeddings": shape.length, "vocab_size": shape.words}
    (folder / "config.json").write_text(json.dumps(said))
    sample = tuple(torch.ones(2, 8, dtype=torch.int64) for _ in range(2))
    sizes = {0: torch.export.Dim("rows", min=1, max=1024), 1: torch.export.Dim("tokens", min=2, max=shape.length)}
    torch.onnx.export(
        Classifier(shape).eval(), sample, folder / "model.onnx", input_names=["input_ids", "attention_mask"],
        output_names=["logits"], dynamic_shapes=(sizes, sizes), dynamo=True, external_data=False, verbose=False)


def small_bert(folder, length):
    """Forms times settings. Files that are the same are links."""
    shape = bert.Shape(4, 256, 4, 1024, 30522, length)
    files = folder / "files"
    for form in ("torchscript", "onnx", "int8"):
        (files / form).mkdir(parents=True)
    bert.write(shape, "pytorch", "fp32", str(files / "torchscript/model.pt"))
    bert.write(shape, "onnxruntime", "fp32", str(files / "onnx/model.onnx"))
    whole, small = files / "onnx/model.onnx", files / "int8/model.onnx"
    quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True)
    for setting, (instances, batching) in SETTINGS.items():
        for form, file in FORMS.items():
            engine = "pytorch" if form == "torchscript" else "onnxruntime"
            config = bert.config(shape, engine, "fp32", "cpu", instances, batching)
            place(folder / setting / form, files / file, config + (AS_EXPORTED if form == "onnx-as-exported" else ""))


FORMS = {"torchscript": "torchscript", "onnx-as-exported": "onnx", "onnx": "onnx", "int8": "int8"}


def place(model, files, config):
    """A model of a repository, whose version is a folder of files."""
    model.mkdir(parents=True)
    (model / "1").symlink_to(files.resolve())
    (model / "config.pbtxt").write_text(config)


def nets(folder):
    """Each network in each form."""
    for name, (module, side) in nets_models.ALL.items():
        files = folder / f"{name}-files"
        for form in ("torchscript", "onnx", "int8"):
            (files / form).mkdir(parents=True)
        nets_models.write(module, side, files)
        ports = f"""input [ {{ name: "images" data_type: TYPE_FP32 dims: [ 1, 3, {side}, {side} ] }} ]
output [ {{ name: "output" data_type: TYPE_FP32 dims: [ {", ".join(map(str, nets_models.output(module, side)))} ] }} ]
"""
        for form, file in FORMS.items():
            engine = "pytorch" if form == "torchscript" else "onnxruntime"
            config = f'backend: "{engine}"\n{ports}'
            place(folder / name / form, files / file, config + (AS_EXPORTED if form == "onnx-as-exported" else ""))


def mean(folder):
    """The mean of each channel of a large image."""
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 640, 640])
    means = helper.make_tensor_value_info("means", TensorProto.FLOAT, [1, 3])
    axes = numpy_helper.from_array(torch.tensor([2, 3]).numpy(), "axes")
    node = helper.make_node("ReduceMean", ["images", "axes"], ["means"], keepdims=0)
    graph = helper.make_graph([node], "mean", [images], [means], [axes])
    (folder / "mean/1").mkdir(parents=True)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, folder / "mean/1/model.onnx")


KINDS = {
    "distilbert": distilbert,
    "bert-64": lambda folder: small_bert(folder, 64),
    "bert-128": lambda folder: small_bert(folder, 128),
    "nets": nets,
    "mean": mean,
}


def main(kind, folder):
    """Writes them anew."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    KINDS[kind](folder)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
