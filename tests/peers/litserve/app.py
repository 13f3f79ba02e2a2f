"""LitServe: API processes in front, inference processes behind."""

import litserve
import numpy as np

from onnx_model import BATCH, PORT, TUNED, WORKERS, Model


class OnnxApi(litserve.LitAPI):
    """Rows in, rows out. A request is one row or several; a batch joins requests of one row."""

    def setup(self, device):
        """Loads the model, in each inference process."""
        self.model = Model()

    def decode_request(self, request):
        """The rows of a body."""
        return self.model.array(request["instances"])

    def batch(self, inputs):
        """The rows of several bodies."""
        return np.concatenate(inputs)

    def predict(self, rows):
        """Runs the model."""
        return self.model(rows)

    def unbatch(self, output):
        """One array per body, each of one row."""
        return [output[index : index + 1] for index in range(len(output))]

    def encode_response(self, output):
        """The answer to one body."""
        return {"predictions": output.tolist()}


if __name__ == "__main__":
    api = OnnxApi(max_batch_size=BATCH, batch_timeout=0.0)
    server = litserve.LitServer(api, workers_per_device=WORKERS, fast_queue=TUNED)
    server.run(
        host="127.0.0.1",
        port=PORT,
        num_api_servers=WORKERS if TUNED else None,
        log_level="warning" if TUNED else "info",
        generate_client_file=False,
    )
