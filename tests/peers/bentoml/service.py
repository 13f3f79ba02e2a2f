"""BentoML: uvicorn processes under a supervisor; batches are formed within each of them."""

import bentoml
import numpy as np

from onnx_model import BATCH, TUNED, WORKERS, Model

SETTINGS = {"workers": WORKERS}
if TUNED:
    SETTINGS |= {"logging": {"access": {"enabled": False}}, "metrics": {"enabled": False}}
BATCHING = {"batchable": True, "max_batch_size": BATCH, "max_latency_ms": 1000} if BATCH > 1 else {}


@bentoml.service(**SETTINGS)
class OnnxService:
    """Rows in, rows out, at `POST /predict`."""

    def __init__(self):
        self.model = Model()

    @bentoml.api(**BATCHING)
    def predict(self, instances: np.ndarray) -> np.ndarray:
        """Runs the model; the answer is the bare list of rows."""
        return self.model(self.model.array(instances))
