"""Pickled estimators of scikit-learn: what they take and give, and that they answer as they do here."""

import importlib.util
import pathlib
import tempfile
import unittest
import warnings

import numpy as np

from fake_server import Process, call

if importlib.util.find_spec("sklearn") is None:
    raise unittest.SkipTest("these tests take scikit-learn, pandas and joblib")

import joblib
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + 3

TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 60).astype(float),
        "city": RNG.choice(["Oslo", "Rome", "Ulm"], 60),
        "fare": RNG.normal(30, 9, 60),
        "deck": RNG.choice(["A", "B"], 60),
    }
)
TOLD = np.where(TABLE["age"] + 9 * (TABLE["city"] == "Rome") > 50, "yes", "no")


def mixed(estimator):
    """An estimator behind columns of numbers and of texts."""
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="error"))
    columns = ColumnTransformer([("n", StandardScaler(), ["age", "fare"]), ("t", texts, ["city", "deck"])])
    return make_pipeline(columns, estimator)


def served(estimator, file="model.joblib", **options):
    """A process that has opened that estimator."""
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name) / file
    joblib.dump(estimator, path)
    process = Process(None, file=file, load_bytes=path.read_bytes(), **options)
    folder.cleanup()
    return process


def columns(table):
    """The table as tensors, one for each column."""
    made = {}
    for name in table.columns:
        values = table[name].to_numpy()
        if values.dtype.kind != "f":
            values = np.array([it.encode() for it in values], object)
        made[name] = values.reshape(-1, 1)
    return made


class Estimators(unittest.TestCase):
    def opened(self, estimator, **options):
        process = self.enterContext(served(estimator, **options))
        loaded = process.loaded
        self.assertIn("Ok", loaded, loaded)
        spec = loaded["Ok"]["spec"]
        config = process.completed()
        # As the server completes it.
        for place in ("input", "output"):
            if place not in config:
                names = {it["wire"]: it["config"] for it in kinds()}
                config[place] = [
                    {"name": it["name"], "data_type": names[it["dtype"]], "dims": [-1]} for it in spec[f"{place}s"]
                ]
        return process.open(config), spec

    def test_a_classifier_gives_its_classes_and_their_probabilities(self):
        model = LogisticRegression().fit(X, Y)
        lane, spec = self.opened(model)
        (x,) = spec["inputs"]
        self.assertEqual((x["name"], x["dtype"], x["dims"]), ("input__0", "Fp64", [None, 4]))
        shown = [(it["name"], it["dtype"], it["dims"]) for it in spec["outputs"]]
        self.assertEqual(shown, [("label", "Int64", [None]), ("probabilities", "Fp64", [None, 2])])
        (answer,) = lane.run({"input__0": X})
        np.testing.assert_array_equal(answer["label"], model.predict(X))
        np.testing.assert_allclose(answer["probabilities"], model.predict_proba(X), 1e-12)

    def test_one_without_probabilities_gives_its_classes(self):
        model = make_pipeline(StandardScaler(), SVC()).fit(X, np.where(Y == 3, "red", "blue"))
        lane, spec = self.opened(model, file="model.pkl")
        self.assertEqual([it["name"] for it in spec["outputs"]], ["label"])
        (answer,) = lane.run({"input__0": X})
        self.assertEqual([it.decode() for it in answer["label"]], model.predict(X).tolist())

    def test_columns_of_texts_are_inputs_by_their_names(self):
        model = GridSearchCV(mixed(LogisticRegression()), {"logisticregression__C": [0.5, 2]}, cv=2).fit(TABLE, TOLD)
        lane, spec = self.opened(model)
        shown = [(it["name"], it["dtype"], it["dims"]) for it in spec["inputs"]]
        one = [None, 1]
        expected = [("age", "Fp64", one), ("city", "Bytes", one), ("fare", "Fp64", one), ("deck", "Bytes", one)]
        self.assertEqual(shown, expected)
        self.assertEqual(spec["labels"], {"probabilities": ["no", "yes"]})
        # In any order.
        shuffled = dict(reversed(columns(TABLE).items()))
        (answer,) = lane.run(shuffled)
        self.assertEqual([it.decode() for it in answer["label"]], model.predict(TABLE).tolist())
        np.testing.assert_allclose(answer["probabilities"], model.predict_proba(TABLE), 1e-12)

    def test_what_a_row_cannot_be_is_the_clients_fault(self):
        lane, _ = self.opened(mixed(LogisticRegression()).fit(TABLE, TOLD))
        wrong = columns(TABLE.assign(city="Bonn"))
        (answer,) = lane.run(wrong)
        self.assertEqual(answer["code"], "InvalidArg")
        self.assertIn("unknown categories", answer["text"])
        (answer,) = lane.run({**columns(TABLE), "fare": np.zeros((2, 1))})
        self.assertIn("input 'fare' has 2 rows, expected 60", answer["text"])
        (answer,) = lane.run(columns(TABLE))
        self.assertEqual(len(answer["label"]), 60)

    def test_a_table_of_numbers_is_one_input_whose_columns_have_names(self):
        numbers = TABLE[["fare", "age"]]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = LinearRegression().fit(numbers, TABLE["age"] * 2)
        lane, spec = self.opened(model)
        self.assertEqual(spec["columns"], {"input__0": ["fare", "age"]})
        self.assertEqual([(it["name"], it["dims"]) for it in spec["outputs"]], [("output__0", [None])])
        (answer,) = lane.run({"input__0": numbers.to_numpy()})
        np.testing.assert_allclose(answer["output__0"], model.predict(numbers), 1e-12)

    def test_texts_are_rows_where_a_vectorizer_is_first(self):
        texts = ["good film", "bad film", "very good", "very bad"]
        model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, [1, 0, 1, 0])
        lane, spec = self.opened(model)
        self.assertEqual([(it["dtype"], it["dims"]) for it in spec["inputs"]], [("Bytes", [None, 1])])
        (answer,) = lane.run({"input__0": np.array([[it.encode()] for it in texts], object)})
        np.testing.assert_allclose(answer["probabilities"], model.predict_proba(texts), 1e-12)

    def test_what_is_no_classifier_gives_what_predict_or_transform_gives(self):
        for model, method in ((KMeans(3, n_init=1).fit(X), "predict"), (PCA(2).fit(X), "transform")):
            lane, spec = self.opened(model)
            (answer,) = lane.run({"input__0": X})
            expected = getattr(model, method)(X)
            np.testing.assert_allclose(answer["output__0"], expected, 1e-12)
            self.assertEqual(answer["output__0"].dtype, expected.dtype)
            self.assertEqual(spec["outputs"][0]["dims"], [None, *expected.shape[1:]])

    def test_a_configuration_chooses_types_outputs_and_rows_of_many_requests(self):
        model = LogisticRegression().fit(X, Y)
        config = {
            "name": "m",
            "max_batch_size": 64,
            "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}],
            "output": [
                {"name": "predict_proba", "data_type": "TYPE_FP32", "dims": [2]},
                {"name": "decision_function", "data_type": "TYPE_FP64", "dims": [-1]},
            ],
        }
        lane, _ = self.opened(model, config=config)
        rows = X.astype(np.float32)
        first, second = lane.run({"x": rows[:10]}, call({"x": rows[10:]}, ["decision_function"]))
        self.assertEqual(first["predict_proba"].dtype, np.float32)
        np.testing.assert_allclose(first["predict_proba"], model.predict_proba(rows[:10]), 1e-6)
        self.assertEqual(len(second["decision_function"]), 50)
        nan = np.full((1, 4), np.nan, np.float32)
        wrong, right = lane.run({"x": nan}, {"x": rows[:1]})
        self.assertEqual(wrong["code"], "InvalidArg")
        self.assertEqual(len(right["predict_proba"]), 1)

    def test_what_cannot_be_opened_says_why(self):
        output = [{"name": "predict_proba", "data_type": "TYPE_FP32", "dims": [2]}]
        with served(SVC().fit(X, Y), config={"name": "m", "output": output}) as process:
            text = process.loaded["Err"]["text"]
        self.assertIn("SVC has no predict_proba; outputs may be called predict, decision_function", text)
        with Process("no pickle", file="model.joblib") as process:
            self.assertIn("Err", process.loaded)

    def test_a_package_that_is_missing_is_named_with_the_command_that_installs_it(self):
        pickle = b"cnothing_of_that_name\nA\n)R."
        with Process(None, file="model.pkl", load_bytes=pickle) as process:
            text = process.loaded["Err"]["text"]
        self.assertIn("No module named 'nothing_of_that_name'", text)
        self.assertIn("-m pip install nothing_of_that_name", text)


def kinds():
    from muster_python.tensors import KINDS

    return [it._asdict() for it in KINDS]


if __name__ == "__main__":
    unittest.main()
