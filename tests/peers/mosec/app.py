"""mosec: HTTP in Rust, the model in Python processes behind a socket. Its port comes by its flags."""

import mosec
import numpy as np
import orjson

from onnx_model import BATCH, TUNED, WORKERS, Model


class OnnxWorker(mosec.Worker):
    """Rows in, rows out; with dynamic batching, of requests of one row each."""

    def __init__(self):
        super().__init__()
        self.model = Model()

    def deserialize(self, data):
        """The rows of a body."""
        read = orjson.loads if TUNED else super().deserialize
        return self.model.array(read(data)["instances"])

    def forward(self, data):
        """Runs the model on one array, or on the list of them that a batch is."""
        if BATCH == 1:
            return self.model(data)
        output = self.model(np.concatenate(data))
        return [output[index : index + 1] for index in range(len(output))]

    def serialize(self, data):
        """The answer to one body."""
        if TUNED:
            return orjson.dumps({"predictions": data}, option=orjson.OPT_SERIALIZE_NUMPY)
        return super().serialize({"predictions": data.tolist()})


if __name__ == "__main__":
    server = mosec.Server()
    batching = {"max_batch_size": BATCH, "max_wait_time": 1} if BATCH > 1 else {}
    server.append_worker(OnnxWorker, num=WORKERS, route="/predict", **batching)
    server.run()
