"""What SAGEMAKER_INFERENCE_OUTPUT makes of replies, by muster and by the code of SageMaker's XGBoost container.

    python3 tests/peers/xgboost_container.py [--module serve_utils.py] [--muster target/debug/muster]

Takes NumPy, SciPy and xgboost. The container's module comes from its repository; a machine that does not reach GitHub
names a copy of `src/sagemaker_xgboost_container/algorithm_mode/serve_utils.py` with --module. What else that
imports is not called here, and stands empty.

Each model of the fixtures is asked for every key that there is, over CSV, JSON and JSON lines. Keys, their order,
classes and NaN must be equal, and numbers the same in 32 bits: the container writes those widened to 64.
"""

import argparse
import csv
import io
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import types
import urllib.request
from pathlib import Path

import numpy as np
import xgboost

COMMIT = "258ab9c3754ff518e403150ef236677f1541b158"
MODULE = (f"https://raw.githubusercontent.com/aws/sagemaker-xgboost-container/{COMMIT}/"
          "src/sagemaker_xgboost_container/algorithm_mode/serve_utils.py")
ROOT = Path(__file__).resolve().parents[2]
FORESTS = ROOT / "tests/fixtures/forests/xgboost-3.2.0"
KEYS = ["predicted_label", "labels", "probability", "probabilities", "raw_score", "raw_scores", "predicted_score"]
# Names of the constants that the module imports, and of the fixtures of these objectives.
OBJECTIVES = {
    "BINARY_HINGE": ("binary:hinge", "hinge"), "BINARY_LOG": ("binary:logistic", "logistic"),
    "BINARY_LOGRAW": ("binary:logitraw", "logitraw"), "MULTI_SOFTMAX": ("multi:softmax", "softmax"),
    "MULTI_SOFTPROB": ("multi:softprob", "softprob"), "REG_GAMMA": ("reg:gamma", "gamma"),
    "REG_LOG": ("reg:logistic", None), "REG_SQUAREDERR": ("reg:squarederror", "squarederror"),
    "REG_TWEEDIE": ("reg:tweedie", "tweedie"),
}
CLASSES = 3


def container(path):
    """The container's module, with empty ones in the place of those that only its server needs."""
    text = Path(path).read_text() if path else fetched()
    package = "sagemaker_xgboost_container"
    lines = lambda reply: "\n".join(json.dumps(it) for it in reply["predictions"]).encode()
    logger = lambda name: types.SimpleNamespace(warning=print_nothing, info=print_nothing)
    empty = {
        "sagemaker_containers": {}, "sagemaker_containers.record_pb2": {"Record": None},
        "sagemaker_containers._recordio": {"_write_recordio": None},
        package: {}, f"{package}.encoder": {"json_to_jsonlines": lines},
        f"{package}.algorithm_mode": {}, f"{package}.algorithm_mode.integration": {"setup_main_logger": logger},
        f"{package}.constants": {}, f"{package}.constants.sm_env_constants": {
            "SAGEMAKER_BATCH": "SAGEMAKER_BATCH", "SAGEMAKER_INFERENCE_OUTPUT": "SAGEMAKER_INFERENCE_OUTPUT",
            "SAGEMAKER_INFERENCE_ENSEMBLE": "SAGEMAKER_INFERENCE_ENSEMBLE"},
        f"{package}.constants.xgb_constants": {name: value for name, (value, _) in OBJECTIVES.items()},
        f"{package}.data_utils": {"CSV": "csv", "LIBSVM": "libsvm", "RECORDIO_PROTOBUF": "recordio-protobuf",
                                  "get_content_type": None},
    }
    for name, members in empty.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, module)
    module = types.ModuleType("serve_utils")
    exec(compile(text, "serve_utils.py", "exec"), vars(module))
    return module


def print_nothing(*_):
    pass


def fetched():
    try:
        return urllib.request.urlopen(MODULE, timeout=20).read().decode()
    except OSError as error:
        sys.exit(f"{MODULE} cannot be fetched ({error}): name a copy with --module")


class Server:
    def __init__(self, muster, model):
        self.folder = tempfile.TemporaryDirectory()
        os.symlink(model, Path(self.folder.name) / "xgboost-model")
        ports = [f"--{it}-port=0" for it in ("http", "grpc", "sagemaker", "metrics")]
        self.process = subprocess.Popen(
            [muster, "serve", self.folder.name, "--drain-delay-secs=0", *ports], stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, env={**os.environ, "SAGEMAKER_INFERENCE_OUTPUT": ",".join(KEYS)})
        log = []
        for line in self.process.stdout:
            log.append(line)
            if "ready to serve" in line:
                port = re.search(r"service=sagemaker address=\S+:(\d+)", "".join(log))[1]
                self.address = f"http://127.0.0.1:{port}/invocations"
                return
        sys.exit("muster did not start:\n" + "".join(log))

    def ask(self, body, accept):
        headers = {"content-type": "text/csv", "accept": accept}
        return urllib.request.urlopen(urllib.request.Request(self.address, body, headers)).read().decode()

    def stop(self):
        self.process.terminate()
        self.process.communicate()
        self.folder.cleanup()


def records(text, accept):
    """A reply as lists of values, one list for each record, in the order of its keys."""
    if accept == "text/csv":
        rows = csv.reader(io.StringIO(text))
        # Lists are quoted, and numbers stand as Python prints them.
        return [[json.loads(it.replace("nan", "NaN")) for it in row] for row in rows]
    objects = json.loads(text)["predictions"] if accept == "application/json" else map(json.loads, text.splitlines())
    return [[it[key] for key in KEYS] for it in objects]


def equal(ours, theirs):
    if isinstance(theirs, list):
        return isinstance(ours, list) and len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(theirs, float) and math.isnan(theirs):
        return isinstance(ours, float) and math.isnan(ours)
    return not isinstance(ours, list) and np.float32(ours) == np.float32(theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module")
    parser.add_argument("--muster", default=ROOT / "target/debug/muster")
    given = parser.parse_args()
    module = container(given.module)
    rows = np.random.default_rng(5).normal(size=(64, 8)).astype(np.float32)
    rows[np.random.default_rng(6).random(rows.shape) < 0.1] = np.nan
    body = "\n".join(",".join("" if math.isnan(it) else repr(float(it)) for it in row) for row in rows).encode()
    compared, different = 0, 0
    for objective, fixture in OBJECTIVES.values():
        if fixture is None:
            continue
        model = FORESTS / f"{fixture}.ubj"
        booster = xgboost.Booster(model_file=model)
        raw = booster.predict(xgboost.DMatrix(rows))
        classes = CLASSES if objective.startswith("multi:") else ""
        selected = module.get_selected_predictions(raw, KEYS, objective, num_class=classes)
        server = Server(given.muster, model)
        try:
            for accept in ("text/csv", "application/json", "application/jsonlines"):
                theirs = module.encode_selected_predictions(selected, KEYS, accept)
                theirs = theirs if isinstance(theirs, str) else theirs.decode()
                ours = server.ask(body, accept)
                pairs = list(zip(records(ours, accept), records(theirs, accept), strict=True))
                wrong = [(at, key, one, other) for at, (mine, other_row) in enumerate(pairs)
                         for key, one, other in zip(KEYS, mine, other_row, strict=True) if not equal(one, other)]
                compared += len(pairs) * len(KEYS)
                different += len(wrong)
                for it in wrong[:3]:
                    print(f"{objective} as {accept}: record {it[0]}, {it[1]}: muster {it[2]}, container {it[3]}")
        finally:
            server.stop()
    print(f"{compared} values of {len(rows)} rows, {different} different")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
