"""Prints microseconds of processor time: `costs.py GRAPH run`, or `costs.py GRAPH client PHOTO`."""

import sys
import time

import numpy as np
import onnxruntime

from prepare import boxes, letterbox


def main(graph, what, photo=None):
    """The median of some rounds on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options)
    pixels = np.random.default_rng(1).random((1, 3, 640, 640), np.float32)
    data = open(photo, "rb").read() if photo else b""
    output = session.run(None, {"images": pixels})[0]

    def client():
        pixels, back = letterbox(data, 640)
        return pixels.tobytes(), boxes(np.frombuffer(output.tobytes(), np.float32).reshape(output.shape), back)

    run = client if what == "client" else lambda: session.run(None, {"images": pixels})
    times = []
    for _ in range(50):
        begin = time.thread_time()
        run()
        times.append(time.thread_time() - begin)
    print(1e6 * sorted(times)[len(times) // 2])


if __name__ == "__main__":
    main(*sys.argv[1:])
