"""Folders of MLflow's: the answers are those that its own scoring server gives."""

import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np

from fake_server import Process, call

if importlib.util.find_spec("mlflow") is None:
    raise unittest.SkipTest("these tests take mlflow and pandas")

import cloudpickle
import mlflow
import pandas as pd
from mlflow.models import infer_signature
from mlflow.pyfunc import scoring_server

# What serves the models has no module of this name.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TABLE = pd.DataFrame({"name": ["Ada", "Bo"], "age": [36, 7], "size": [1.6, 1.1]})


class Greeter(mlflow.pyfunc.PythonModel):
    """Answers a text for each row."""

    def predict(self, context, model_input, params=None):
        word = (params or {}).get("word", "Hi")
        return [f"{word} {name}, {age + 1}" for name, age in zip(model_input["name"], model_input["age"])]


class Doubler(mlflow.pyfunc.PythonModel):
    """Takes whatever comes."""

    def predict(self, context, model_input, params=None):
        if isinstance(model_input, dict):
            return {name: it * 2 for name, it in model_input.items()}
        return model_input * 2


def saved(model, **more):
    """A folder with that model."""
    folder = tempfile.TemporaryDirectory()
    mlflow.pyfunc.save_model(str(pathlib.Path(folder.name) / "m"), python_model=model, pip_requirements=[], **more)
    return folder


def body(text, content_type=None):
    array = np.empty(1, object)
    array[0] = text.encode() if isinstance(text, str) else text
    parameters = {} if content_type is None else {"content_type": content_type}
    return call({"body": array}, parameters=parameters)


SIGNATURE = infer_signature(TABLE, ["Hi Ada, 37"], {"word": "Hi"})


class Folders(unittest.TestCase):
    def opened(self, model, **more):
        folder = self.enterContext(saved(model, **more))
        path = pathlib.Path(folder) / "m"
        files = {f"1/{it.relative_to(path)}": it.read_bytes() for it in path.rglob("*") if it.is_file()}
        process = self.enterContext(Process(None, file="MLmodel", files=files))
        return process.open(), mlflow.pyfunc.load_model(str(path))

    def check(self, lane, model, text, content_type=None):
        """The same body goes to both. What came back."""
        (answer,) = lane.run(body(text, content_type))
        self.assertNotIn("code", answer, answer)
        said, status = answer["body"].item().decode(), answer.parameters["status"]
        schema = model.metadata.get_input_schema()
        try:
            given = text.encode() if isinstance(text, str) else text
            expected = scoring_server.invocations(given, content_type or "application/json", model, schema)
        except mlflow.exceptions.MlflowException as error:
            self.assertEqual(status, error.get_http_status_code())
            expected = json.loads(error.serialize_as_json())
            self.assertEqual(json.loads(said)["error_code"], expected["error_code"])
            self.assertNotIn("stack_trace", json.loads(said))
            return status, said
        self.assertEqual((said, status), (expected.response, expected.status))
        self.assertEqual(answer.parameters["content_type"].split(";")[0], expected.mimetype)
        return status, said

    def test_tables_in_every_form_reach_the_model_with_their_types(self):
        lane, model = self.opened(Greeter(), signature=SIGNATURE)
        split = {key: it for key, it in TABLE.to_dict("split").items() if key != "index"}
        expected = '{"predictions": ["Hi Ada, 37", "Hi Bo, 8"]}'
        for text in (
            json.dumps({"dataframe_split": split}),
            json.dumps({"dataframe_records": TABLE.to_dict("records")}),
            json.dumps({"instances": TABLE.to_dict("records")}),
            json.dumps({"inputs": TABLE.to_dict("list")}),
        ):
            self.assertEqual(self.check(lane, model, text), (200, expected))
        self.assertEqual(self.check(lane, model, TABLE.to_csv(index=False), "text/csv"), (200, expected))
        told = json.dumps({"dataframe_split": split, "params": {"word": "Bye"}})
        self.assertEqual(self.check(lane, model, told), (200, '{"predictions": ["Bye Ada, 37", "Bye Bo, 8"]}'))

    def test_what_is_wrong_has_the_status_and_the_code_of_mlflow(self):
        lane, model = self.opened(Greeter(), signature=SIGNATURE)
        missing = json.dumps({"dataframe_records": [{"name": "Ada", "size": 1.0}]})
        status, said = self.check(lane, model, missing)
        self.assertEqual(status, 400)
        self.assertIn("age", said)
        for text, content_type, expected in (
            ("{", None, 400),
            ("[1]", None, 400),
            ('{"rows": []}', None, 400),
            (b"\xff", None, 400),
            ("a,b\n1,2\n", "text/csv", 400),
            ("x", "text/html", 415),
            ("{}", "application/json; charset=latin-1", 415),
        ):
            self.assertEqual(self.check(lane, model, text, content_type)[0], expected, text)

    def test_arrays_need_no_signature(self):
        lane, model = self.opened(Doubler())
        for text in ('{"instances": [[1, 2], [3, 4]]}', '{"inputs": [1.5, 2]}', '{"inputs": {"a": [1], "b": [2.5]}}'):
            self.assertEqual(self.check(lane, model, text)[0], 200)

    def test_a_folder_that_cannot_be_opened_says_why(self):
        with Process("flavors: {}\n", file="MLmodel") as process:
            self.assertIn("python_function", process.loaded["Err"]["text"])


if __name__ == "__main__":
    unittest.main()
