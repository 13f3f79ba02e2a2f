"""The part of OpenAI's form of embeddings that clients use: a text or several in, base64 of floats out."""

import base64
import os

import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel

from batches import Batches


class Request(BaseModel):
    """The body of a request."""

    input: str | list[str]
    model: str = ""
    encoding_format: str = "float"

    def texts(self):
        """One or several."""
        return [self.input] if isinstance(self.input, str) else self.input


def application(encode):
    """An application around `encode`, which makes an array `[texts, numbers]` of a list of texts."""
    app = FastAPI()
    rows = int(os.environ["PEER_BATCH"])
    if rows == 1:

        @app.post("/v1/embeddings")
        def embeddings(request: Request):
            return reply(request, encode(request.texts()))

    else:
        batches = Batches(encode, rows)

        @app.post("/v1/embeddings")
        async def embeddings_of_batches(request: Request):
            return reply(request, await batches.vectors(request.texts()))

    return app


def reply(request, vectors):
    """The body of a reply."""
    vectors = np.ascontiguousarray(vectors, dtype="<f4")
    data = [
        {"object": "embedding", "index": index, "embedding": written(vector, request)}
        for index, vector in enumerate(vectors)
    ]
    return {"object": "list", "data": data, "model": request.model}


def written(vector, request):
    """A vector in the form that was asked for."""
    if request.encoding_format == "base64":
        return base64.b64encode(vector.tobytes()).decode()
    return vector.tolist()
