"""The application and the multi-model handler of SageMaker's XGBoost container, called without a server.

    python3 tests/peers/xgboost_handlers.py FOLDER_OF_ITS_SOURCE FOLDER_OF_A_MODEL < requests > replies

Not called by hand: `xgboost_table.py` starts it, once for each setting, since the container reads its variables when
it is imported. A line of JSON is a request: `type`, `accept`, `body` in base64. A line is printed for each: `status`,
`type`, `body`. Takes flask, gunicorn, six, scipy, pandas, pyarrow, protobuf 3.20, xgboost, sagemaker-containers and
sagemaker-inference, these two without what they depend on, and legacy-cgi from Python 3.13 on.
"""

import base64
import json
import os
import sys
import types


def stand_ins():
    """What the container imports of its toolkit and does not use to answer."""
    from sagemaker_containers import _encoders
    framework = types.ModuleType("sagemaker_containers.beta.framework")
    framework.encoders, framework.env = _encoders, None
    beta = types.ModuleType("sagemaker_containers.beta")
    beta.framework = framework
    sys.modules["sagemaker_containers.beta"] = beta
    sys.modules["sagemaker_containers.beta.framework"] = framework


def application():
    """Of an endpoint with one model: a Flask application."""
    from sagemaker_xgboost_container.algorithm_mode import serve
    client = serve.ScoringService.app.test_client()

    def ask(body, content_type, accept):
        headers = {name: value for name, value in (("Content-Type", content_type), ("Accept", accept)) if value}
        try:
            reply = client.post("/invocations", data=body, headers=headers)
        except Exception as error:  # What it does not catch itself is 500 behind its server.
            return 500, "", repr(error).encode()
        return reply.status_code, reply.mimetype, reply.data
    return ask


class Context:
    """What the Multi Model Server passes to a handler."""

    def __init__(self, model, headers):
        self.system_properties = self._system_properties = {"model_dir": model}
        self.request_processor = [self]
        self.headers, self.status, self.content_type = headers, 200, ""

    def get_request_properties(self):
        return self.headers

    def set_response_content_type(self, _, content_type):
        self.content_type = content_type

    def set_response_status(self, code, phrase):
        self.status = code


def handler(model):
    """Of a multi-model endpoint: the service that the Multi Model Server calls."""
    from sagemaker_xgboost_container.algorithm_mode import handler_service
    service = handler_service.HandlerService()

    def ask(body, content_type, accept):
        headers = {name: value for name, value in (("Content-Type", content_type), ("Accept", accept)) if value}
        context = Context(model, headers)
        try:
            reply = service.handle([{"body": body}], context)[0]
        except Exception as error:  # The Multi Model Server answers for a handler that raises.
            return 500, "", repr(error).encode()
        reply = reply if isinstance(reply, bytes) else str(reply).encode()
        return context.status, context.content_type, reply
    return ask


def main():
    source, model = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, source)
    stand_ins()
    os.environ["SM_MODEL_DIR"] = model
    ask = handler(model) if os.environ.get("SAGEMAKER_MULTI_MODEL") == "true" else application()
    for line in sys.stdin:
        request = json.loads(line)
        status, content_type, body = ask(base64.b64decode(request["body"]), request["type"], request["accept"])
        reply = {"status": status, "type": content_type, "body": base64.b64encode(body).decode()}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
