"""What one writes by hand: `tokenizers`, ONNX Runtime, the mean of the tokens' vectors."""

import os
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from openai_form import application

FOLDER = Path(os.environ["PEER_MODEL"])
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = int(os.environ["PEER_THREADS"])
session = onnxruntime.InferenceSession(FOLDER / "model.onnx", OPTIONS)
names = [it.name for it in session.get_inputs()]
tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
tokenizer.enable_truncation(256)
tokenizer.enable_padding()


def encode(texts):
    """Unit vectors of some texts, which run together."""
    rows = tokenizer.encode_batch(texts)
    given = {
        "input_ids": np.array([it.ids for it in rows]),
        "attention_mask": np.array([it.attention_mask for it in rows]),
        "token_type_ids": np.array([it.type_ids for it in rows]),
    }
    tokens = session.run(None, {name: given[name] for name in names})[0]
    mask = given["attention_mask"][:, :, None].astype(np.float32)
    means = (tokens * mask).sum(1) / mask.sum(1)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


app = application(encode)
