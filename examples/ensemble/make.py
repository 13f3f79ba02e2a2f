"""Writes the models of the ensemble into a folder: examples/ensemble/make.py FOLDER"""

import shutil
import sys
from pathlib import Path

from skl2onnx import to_onnx
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

folder = Path(sys.argv[1])
X, y = load_iris(return_X_y=True)
X = X.astype("float32")
scaler = StandardScaler().fit(X)
classifier = LogisticRegression().fit(scaler.transform(X), y)
for name, model in [("scaler", scaler), ("classifier", classifier)]:
    version = folder / name / "1"
    version.mkdir(parents=True)
    options = {id(model): {"zipmap": False}} if name == "classifier" else None
    (version / "model.onnx").write_bytes(to_onnx(model, X[:1], options=options).SerializeToString())
(folder / "score/1").mkdir(parents=True)
shutil.copy(Path(__file__).with_name("config.pbtxt"), folder / "score")
