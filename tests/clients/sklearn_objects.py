"""Estimators of scikit-learn that no engine reads as data: makes files of them, and asks the server that runs them.

Usage: sklearn_objects.py make FOLDER          FOLDER/<name>/1/model.joblib and the like
       sklearn_objects.py ask FOLDER KSERVE INVOCATIONS
                                               compares answers with those of the estimators themselves
"""

import io
import json
import pathlib
import sys

import joblib
import numpy as np
import pandas as pd
import requests
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 4))
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 40).astype(float),
        "city": RNG.choice(["Oslo", "Rome", "Ulm"], 40),
        "fare": RNG.normal(30, 9, 40).round(2),
    }
)
KINDS = np.where(X[:, 0] > 0, 7, 3)


def close(given, expected):
    """Sums of the same numbers in another order may differ in their last bits: arrays of one kind lie otherwise here."""
    np.testing.assert_allclose(np.array(given, float), expected, rtol=1e-12)


def make(folder):
    texts = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer([("n", numbers, ["age", "fare"]), ("t", texts, ["city"])])
    mixed = make_pipeline(columns, LogisticRegression()).fit(TABLE, np.where(TABLE["age"] > 45, "old", "young"))
    files = {
        "mixed/1/model.joblib": mixed,
        "svc/1/model.pkl": SVC().fit(X, KINDS),
        "line/1/model.skops": LinearRegression().fit(TABLE[["fare", "age"]], TABLE["fare"] - TABLE["age"]),
        "packed/1/model.joblib": LogisticRegression().fit(X, KINDS),
    }
    for name, model in files.items():
        path = pathlib.Path(folder) / name
        path.parent.mkdir(parents=True)
        if path.suffix == ".skops":
            skops.io.dump(model, path)
        else:
            joblib.dump(model, path, compress=3 if "packed" in name else 0)


def opened(folder, name):
    (path,) = (pathlib.Path(folder) / name / "1").iterdir()
    if path.suffix == ".skops":
        return skops.io.load(path, trusted=skops.io.get_untrusted_types(file=path))
    return joblib.load(path)


class Server:
    def __init__(self, kserve, invocations):
        self._kserve, self._invocations, self._session = kserve, invocations, requests.Session()

    def infer(self, model, inputs, status=200):
        """KServe v2: outputs by name, as arrays."""
        inputs = [{"name": n, "datatype": t, "shape": list(np.shape(v)), "data": v} for n, t, v in inputs]
        reply = self._session.post(f"{self._kserve}/v2/models/{model}/infer", json={"inputs": inputs}, timeout=30)
        assert reply.status_code == status, (reply.status_code, reply.text)
        if status != 200:
            return reply.json()["error"]
        return {it["name"]: np.array(it["data"]).reshape(it["shape"]) for it in reply.json()["outputs"]}

    def invoke(self, model, body, content_type="application/json", accept=None, status=200):
        headers = {"Content-Type": content_type, "X-Amzn-SageMaker-Target-Model": model}
        headers |= {"Accept": accept} if accept else {}
        body = body if isinstance(body, str) else json.dumps(body)
        reply = self._session.post(self._invocations + "/invocations", data=body, headers=headers, timeout=30)
        assert reply.status_code == status, (model, body, reply.status_code, reply.text)
        return reply


def ask(folder, kserve, invocations):
    server = Server(kserve, invocations)
    mixed = opened(folder, "mixed")
    classes, shares = mixed.predict(TABLE), mixed.predict_proba(TABLE)
    one = lambda name: [[it] for it in TABLE[name].tolist()]
    inputs = [("city", "BYTES", one("city")), ("age", "FP64", one("age")), ("fare", "FP64", one("fare"))]
    answer = server.infer("mixed", inputs)
    assert answer["label"].ravel().tolist() == classes.tolist()
    close(answer["probabilities"], shares)
    error = server.infer("mixed", inputs[:2], status=400)
    assert "'fare'" in error, error

    # A table with its header, in any order of the columns, and without one in the order of training.
    shuffled = TABLE[["fare", "city", "age"]]
    for text in (shuffled.to_csv(index=False), TABLE.to_csv(index=False, header=False)):
        assert server.invoke("mixed", text, "text/csv").text.split() == classes.tolist()
    scores = server.invoke("mixed", shuffled.to_csv(index=False), "text/csv", "text/csv; output=probabilities").text
    close(np.loadtxt(io.StringIO(scores), delimiter=","), shares)
    error = server.invoke("mixed", shuffled.drop(columns="city").to_csv(index=False), "text/csv", status=400).text
    assert "city" in error, error

    split = {key: it for key, it in shuffled.to_dict("split").items() if key != "index"}
    records = shuffled.to_dict("records")
    for body in ({"dataframe_split": split}, {"dataframe_records": records}, {"instances": records}):
        rows = server.invoke("mixed", body).json()["predictions"]
        assert [it["label"] for it in rows] == classes.tolist(), rows
        close([it["probabilities"] for it in rows], shares)
    # A number may be missing.
    gap = TABLE.head(2).assign(age=[np.nan, 20.0])
    filled = mixed.predict_proba(gap)
    rows = [{**it, "age": None if np.isnan(it["age"]) else it["age"]} for it in gap.to_dict("records")]
    rows = server.invoke("mixed", {"dataframe_records": rows}).json()["predictions"]
    close([it["probabilities"] for it in rows], filled)
    scores = server.invoke("mixed", gap.to_csv(index=False), "text/csv", "text/csv; output=probabilities").text
    close(np.loadtxt(io.StringIO(scores), delimiter=","), filled)

    del records[1]["city"]
    for body in ({"dataframe_records": records}, {"instances": records}):
        assert "city" in server.invoke("mixed", body, status=400).text
    wrong = TABLE.assign(city="Bonn").to_csv(index=False)
    assert "unknown categories" in server.invoke("mixed", wrong, "text/csv", status=400).text

    svc = opened(folder, "svc")
    csv = pd.DataFrame(X).to_csv(index=False, header=False)
    assert server.invoke("svc", csv, "text/csv").text.split() == [str(it) for it in svc.predict(X)]
    assert server.invoke("svc", {"instances": X.tolist()}).json() == {"predictions": svc.predict(X).tolist()}
    assert server.infer("svc", [("input__0", "FP64", X.tolist())])["label"].ravel().tolist() == svc.predict(X).tolist()
    assert "4" in server.infer("svc", [("input__0", "FP64", X[:, :3].tolist())], status=400)

    line, numbers = opened(folder, "line"), TABLE[["fare", "age"]]
    expected = line.predict(numbers)
    close(server.infer("line", [("input__0", "FP64", numbers.to_numpy().tolist())])["output__0"].ravel(), expected)
    for table in (numbers, TABLE[["age", "fare"]]):
        split = {"dataframe_split": {"columns": list(table), "data": table.to_numpy().tolist()}}
        close(server.invoke("line", split).json()["predictions"], expected)
        text = server.invoke("line", table.to_csv(index=False), "text/csv").text
        close(text.split(), expected)
    error = server.invoke("line", TABLE[["age"]].to_csv(index=False), "text/csv", status=400).text
    assert "fare" in error, error

    packed = opened(folder, "packed")
    answer = server.infer("packed", [("input__0", "FP64", X.tolist())])
    assert answer["label"].ravel().tolist() == packed.predict(X).tolist()
    close(answer["probabilities"], packed.predict_proba(X))
    print("the answers are those of scikit-learn")


if __name__ == "__main__":
    {"make": make, "ask": ask}[sys.argv[1]](*sys.argv[2:])
