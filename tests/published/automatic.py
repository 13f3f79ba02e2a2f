"""The settings that muster finds by itself beside the best that `muster recommend` finds, for each model of the other
cases."""

import json
import math
import random
import struct
import tempfile
from pathlib import Path

from grid import question
from overload import TEXT
from serving import made, processors, recommend, say, table
from trees import model_and_row

# By network the side of its square pictures.
SIDES = {"detector": 416, "resnet-18": 224, "u-net": 256}
LENGTHS = (64, 128)
AUTOMATIC = "automatic"


def automatic(given):
    """A default job for each model."""
    scale = 10 if given.quick else 1
    machine = f"local.cpu{min(2, len(processors()))}"
    rows = []
    with tempfile.TemporaryDirectory() as aside:
        aside = Path(aside)
        for name, model, payload, kind in models(given, aside):
            say(name)
            recommend(
                given, "--model", model, "--payload", payload, "--content-type", kind, "--instance", machine,
                "--objective", "throughput", "--time-scale", scale, "--table", aside / "table.md",
                "--describe", aside / "describe.json", "--state", aside / "state", "--fresh")
            rows.append([name, *beside((aside / "table.md").read_text())])
    print(f"{machine}, default jobs. The last column is above 1 where the best of the others carries more; a row without "
          "one had no other setting that came so far.\n")
    table(["model", "automatic, requests/min>", "ms>", "the best of the others", "requests/min>", "ms>",
           "times automatic (95 %)>"], rows)


def models(given, aside):
    """Each model: its name, its file or folder, a file with a body for it, and the type of that."""
    (aside / "body.csv").write_text(model_and_row(aside))
    yield "forest, a row", aside / "model.json", aside / "body.csv", "text/csv"
    text = aside / "text.json"
    text.write_text(json.dumps(TEXT))
    yield "DistilBERT, a sentence", made(given, "distilbert"), text, "application/json"
    for length in LENGTHS:
        body = aside / f"{length}.json"
        body.write_text(json.dumps({"inputs": question(length)}))
        model = made(given, f"bert-{length}") / "files/onnx/model.onnx"
        yield f"BERT, {length} tokens", model, body, "application/json"
    for net, side in SIDES.items():
        body = aside / f"{net}.npy"
        body.write_bytes(picture(side))
        yield net, made(given, "nets") / f"{net}-files/onnx/model.onnx", body, "application/x-npy"


def picture(side):
    """Random numbers of shape [1, 3, side, side] as an array of NumPy's format 1.0."""
    shape = (1, 3, side, side)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head = head.ljust(-(-(len(head) + 11) // 64) * 64 - 11) + "\n"
    chance, count = random.Random(0), math.prod(shape)
    numbers = struct.pack(f"<{count}f", *(chance.random() for _ in range(count)))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + numbers


def beside(text):
    """Of a job's table what the automatic setting carries, and what the best of the others does."""
    columns, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    rows = [dict(zip(columns, line)) for line in lines]
    own = next(it for it in rows if it["settings"] == AUTOMATIC)
    others = [it for it in rows if it["settings"] != AUTOMATIC]
    cells = [own["requests/min each"], own["ms"]]
    if not others:
        return [*cells, "–", "–", "–", "–"]
    best = max(others, key=lambda it: int(it["requests/min each"]))
    return [*cells, f"`{best['settings']}`", best["requests/min each"], best["ms"], best["times automatic (95 %)"]]
