"""The least that Python can do: no framework between uvicorn and ONNX Runtime, JSON by orjson."""

import orjson

from onnx_model import Model

model = Model()
HEADERS = [(b"content-type", b"application/json")]


async def app(_scope, receive, send):
    """Answers any request as `POST /predict`, on the event loop."""
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    predictions = model(model.array(orjson.loads(body)["instances"]))
    reply = orjson.dumps({"predictions": predictions}, option=orjson.OPT_SERIALIZE_NUMPY)
    length = (b"content-length", str(len(reply)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, length]})
    await send({"type": "http.response.body", "body": reply})
