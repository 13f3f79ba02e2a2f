"""The model that every peer serves, and the settings it is given in the environment."""

import os

import numpy as np
import onnxruntime

PORT = int(os.environ["PEER_PORT"])
NAME = os.environ["PEER_MODEL_NAME"]
WORKERS = int(os.environ["PEER_WORKERS"])
BATCH = int(os.environ["PEER_BATCH"])
TUNED = os.environ["PEER_TUNED"] == "1"


class Model:
    """An ONNX model of one input, of floats or whole numbers, and one output of floats."""

    def __init__(self):
        options = onnxruntime.SessionOptions()
        # Zero leaves the number to ONNX Runtime: one thread per processor, spinning between runs.
        options.intra_op_num_threads = int(os.environ["PEER_THREADS"])
        self.session = onnxruntime.InferenceSession(os.environ["PEER_MODEL"], options)
        self.input = self.session.get_inputs()[0]
        self.output = self.session.get_outputs()[0]

    def __call__(self, rows):
        """The outputs of these rows; both arrays begin with the dimension of the batch."""
        return self.session.run(None, {self.input.name: rows})[0]

    def array(self, instances):
        """Nested lists as the array that the model takes."""
        dtype = np.int64 if self.input.type == "tensor(int64)" else np.float32
        return np.asarray(instances, dtype=dtype)
