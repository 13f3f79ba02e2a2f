"""What one writes first: FastAPI, a schema, ONNX Runtime."""

from fastapi import FastAPI
from pydantic import BaseModel

from onnx_model import TUNED, Model

app = FastAPI()
model = Model()


class Instances(BaseModel):
    """Rows, as nested lists of numbers."""

    instances: list


def predict(request: Instances):
    """Runs on a pool of threads, as FastAPI advises for calls that block."""
    return {"predictions": model(model.array(request.instances)).tolist()}


async def predict_in_place(request: Instances):
    """Runs on the event loop: better where the model is faster than the way to the pool."""
    return predict(request)


app.post("/predict")(predict_in_place if TUNED else predict)
