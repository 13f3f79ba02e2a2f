"""Folders of MLflow's with code: makes one, and compares the answers of the server with those of MLflow's own scoring.

Usage: pyfunc_models.py make FOLDER        FOLDER/greet/1/MLmodel
       pyfunc_models.py ask FOLDER URL     of a server whose only model is that one
"""

import json
import os
import pathlib
import sys

import cloudpickle
import mlflow
import pandas as pd
import requests
from mlflow.models import infer_signature
from mlflow.pyfunc import scoring_server

# What serves the model has no module of this name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TABLE = pd.DataFrame({"name": ["Ada", "Bo"], "age": [36, 7], "size": [1.5, 1.0]})


class Greeter(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        if model_input["age"].max() > 200:
            raise RuntimeError("nobody is that old")
        rows = zip(model_input["name"], model_input["age"], model_input["size"])
        return pd.DataFrame([{"said": f"{params['word']} {name}", "next": age + 1, "half": it / 2} for name, age, it in rows])


def make(folder):
    signature = infer_signature(TABLE, params={"word": "Hi"})
    path = pathlib.Path(folder) / "greet"
    path.mkdir()
    mlflow.pyfunc.save_model(str(path / "1"), python_model=Greeter(), signature=signature, pip_requirements=[])


def ask(folder, url):
    # As the server itself says it to the model's package.
    os.environ["_MLFLOW_IS_IN_SERVING_ENVIRONMENT"] = "true"
    model = mlflow.pyfunc.load_model(str(pathlib.Path(folder) / "greet/1"))
    schema, session = model.metadata.get_input_schema(), requests.Session()

    def check(text, content_type="application/json"):
        """The same body goes to both; the answers have one status, one type and one body."""
        text = text if isinstance(text, (str, bytes)) else json.dumps(text)
        data = text.encode() if isinstance(text, str) else text
        reply = session.post(url + "/invocations", data=data, headers={"Content-Type": content_type}, timeout=60)
        said = reply.headers["Content-Type"].split(";")[0]
        try:
            expected = scoring_server.invocations(data, content_type, model, schema)
            assert (reply.status_code, said, reply.text) == (expected.status, expected.mimetype, expected.response)
        except mlflow.exceptions.MlflowException as error:
            expected = json.loads(error.serialize_as_json())
            # Places in the code are in the server's log.
            expected.pop("stack_trace", None)
            assert (reply.status_code, said) == (error.get_http_status_code(), "application/json"), reply.text
            # Its texts list sets, whose order is another in each process.
            given = reply.json()
            assert sorted(given.pop("message")) == sorted(expected.pop("message")), reply.text
            assert given == expected, (reply.text, expected)
        return reply

    split = {key: it for key, it in TABLE.to_dict("split").items() if key != "index"}
    answer = check({"dataframe_split": split}).json()["predictions"]
    assert answer[0] == {"said": "Hi Ada", "next": 37, "half": 0.75}, answer
    for body in (
        {"dataframe_split": split, "params": {"word": "Bye"}},
        {"dataframe_records": TABLE.to_dict("records")},
        {"instances": TABLE.to_dict("records")},
        {"inputs": TABLE.to_dict("list")},
    ):
        assert check(body).status_code == 200
    assert check(TABLE.to_csv(index=False), "text/csv").status_code == 200
    assert check({"dataframe_records": [{"name": "Ada", "size": 1.0}]}).status_code == 400
    assert check({"dataframe_split": {**split, "data": [["Ada", "old", 1.0]]}}).status_code == 400
    assert check({"dataframe_records": [{"name": "Ada", "age": 900, "size": 1.0}]}).status_code == 400
    for text in ("{", "[1]", '{"rows": []}', b"\xff", '{"dataframe_split": 3}'):
        assert check(text).status_code == 400
    assert check("a,b\n1,2\n", "text/csv").status_code == 400
    assert check("x", "text/html").status_code == 415
    print("the answers are those of MLflow")


if __name__ == "__main__":
    {"make": make, "ask": ask}[sys.argv[1]](*sys.argv[2:])
