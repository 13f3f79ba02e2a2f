"""What one writes by hand: an image in, boxes out, by OpenCV, NumPy and ONNX Runtime."""

import ast
import os

import onnxruntime
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool

from prepare import boxes, letterbox

OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = int(os.environ["PEER_THREADS"])
session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], OPTIONS)
SIDE = session.get_inputs()[0].shape[2]
LABELS = ast.literal_eval(session.get_modelmeta().custom_metadata_map["names"])

app = FastAPI()


def detect(data):
    """The reply to a file."""
    pixels, back = letterbox(data, SIDE)
    found = boxes(session.run(None, {"images": pixels})[0], back)
    names = ("xmin", "ymin", "xmax", "ymax")
    return [
        {"score": score, "label": LABELS[kind], "box": dict(zip(names, map(int, corners)))}
        for kind, score, corners in found
    ]


@app.post("/invocations")
async def invocations(request: Request):
    """The body is the file; other requests are read meanwhile."""
    return await run_in_threadpool(detect, await request.body())
