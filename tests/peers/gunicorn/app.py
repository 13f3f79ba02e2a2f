"""Flask and ONNX Runtime behind Gunicorn: the front of many containers for models."""

from flask import Flask, request

from onnx_model import Model

app = Flask(__name__)
model = Model()


@app.get("/ping")
def ping():
    """Is it there?"""
    return ""


@app.post("/predict")
def predict():
    """The predictions of rows, which are nested lists of numbers."""
    rows = model.array(request.get_json()["instances"])
    return {"predictions": model(rows).tolist()}
