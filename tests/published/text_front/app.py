"""A classifier of texts as one writes it: Flask, `tokenizers`, ONNX Runtime."""

import json
import os
from pathlib import Path

import numpy as np
import onnxruntime
from flask import Flask, request
from tokenizers import Tokenizer

FOLDER = Path(os.environ["PUBLISHED_FOLDER"])
OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(FOLDER / "model.onnx", OPTIONS)
tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
labels = json.loads((FOLDER / "config.json").read_text())["id2label"]
app = Flask(__name__)


@app.get("/ping")
def ping():
    """Is it there?"""
    return ""


@app.post("/invocations")
def classify():
    """The best class of a text, in the form of Hugging Face's containers."""
    row = tokenizer.encode(request.get_json()["inputs"])
    given = {"input_ids": np.array([row.ids]), "attention_mask": np.array([row.attention_mask])}
    scores = session.run(None, given)[0][0]
    shares = np.exp(scores - scores.max())
    best = int(scores.argmax())
    return [{"label": labels[str(best)], "score": float(shares[best] / shares.sum())}]
