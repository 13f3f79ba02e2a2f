"""The part of OpenAI's form of embeddings that clients use: a text or several in, base64 of floats out."""

import base64

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel


class Request(BaseModel):
    """The body of a request."""

    input: str | list[str]
    model: str = ""
    encoding_format: str = "float"


def application(encode):
    """An application around `encode`, which makes an array `[texts, numbers]` of a list of texts."""
    app = FastAPI()

    @app.post("/v1/embeddings")
    def embeddings(request: Request):
        texts = [request.input] if isinstance(request.input, str) else request.input
        vectors = np.ascontiguousarray(encode(texts), dtype="<f4")
        data = [
            {"object": "embedding", "index": index, "embedding": written(vector, request)}
            for index, vector in enumerate(vectors)
        ]
        return {"object": "list", "data": data, "model": request.model}

    return app


def written(vector, request):
    """A vector in the form that was asked for."""
    if request.encoding_format == "base64":
        return base64.b64encode(vector.tobytes()).decode()
    return vector.tolist()
