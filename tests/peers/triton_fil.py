"""Configurations of Triton's FIL backend, unchanged, against what that runs on CPUs: treelite's GTIL.

    python3 tests/peers/triton_fil.py [target/debug/muster]

Takes treelite, NumPy and tritonclient[http]. Starts a server with a model for each configuration, and asks with Triton's own
client. Values and probabilities must lie within 1e-6 of GTIL's: FIL adds the base last, and muster as the library that
trained. Classes must be equal.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import treelite
import tritonclient.http as triton

ROOT = Path(__file__).resolve().parents[2]
MUSTER = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/debug/muster"
FORESTS = ROOT / "tests/fixtures/forests"
TOLERANCE = 1e-6
FEATURES = 8

# The form of configurations in the documentation and the notebooks of the backend.
CONFIG = """
name: "{name}"
backend: "fil"
max_batch_size: 32768
input [ {{ name: "input__0" data_type: TYPE_FP32 dims: [ {features} ] }} ]
output [ {{ name: "output__0" data_type: TYPE_FP32 dims: [ {columns} ] }} ]
instance_group [{{ kind: KIND_AUTO }}]
parameters [ {parameters} ]
dynamic_batching {{}}
"""
USUAL = {"storage_type": "AUTO", "algo": "ALGO_AUTO", "blocks_per_sm": "0", "transfer_threshold": "0",
         "use_experimental_optimizations": "true"}
FILES = {"xgboost": "xgboost.model", "xgboost_json": "xgboost.json", "xgboost_ubj": "xgboost.ubj",
         "lightgbm": "model.txt", "treelite_checkpoint": "checkpoint.tl"}
FORMATS = {"xgboost_json": "json", "xgboost_ubj": "ubjson"}


class Case:
    """A file, its parameters, and how many columns the output has."""

    def __init__(self, name, model_type, file, columns, **parameters):
        self.name, self.model_type, self.columns = name, model_type, columns
        self.file, self.parameters = FORESTS / file, {"model_type": model_type, **parameters}

    def write(self, repository):
        folder = repository / self.name / "1"
        folder.mkdir(parents=True)
        (folder / FILES[self.model_type]).write_bytes(self.file.read_bytes())
        pairs = {**USUAL, **self.parameters}
        pairs = [f'{{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in pairs.items()]
        parameters = ", ".join(pairs)
        text = CONFIG.format(name=self.name, features=FEATURES, columns=self.columns, parameters=parameters)
        (folder.parent / "config.pbtxt").write_text(text)

    def load(self):
        load = treelite.frontend
        if self.model_type == "lightgbm":
            return load.load_lightgbm_model(self.file)
        if self.model_type == "xgboost":
            return load.load_xgboost_model_legacy_binary(self.file)
        if self.model_type == "treelite_checkpoint":
            return treelite.Model.deserialize(self.file)
        return load.load_xgboost_model(self.file, format_choice=FORMATS[self.model_type])

    def expected(self, rows):
        """What FIL makes of GTIL's predictions."""
        made = treelite.gtil.predict(self.load(), rows, nthread=1)
        made = np.asarray(made, dtype=np.float64).reshape(len(rows), -1)
        is_classifier = self.parameters.get("is_classifier", self.parameters.get("output_class")) == "true"
        if not is_classifier:
            return made
        if self.parameters.get("predict_proba") == "true":
            return np.hstack([1 - made, made]) if made.shape[1] == 1 and self.columns == 2 else made
        if made.shape[1] == 1:
            return (made > float(self.parameters.get("threshold", 0.5))).astype(np.float64)
        return made.argmax(axis=1, keepdims=True).astype(np.float64)


def cases():
    new, old, light = "xgboost-3.2.0", "xgboost-1.7.6", "lightgbm-4.7.0"
    class_of, both = {"is_classifier": "true"}, {"is_classifier": "true", "predict_proba": "true"}
    value = {"is_classifier": "false"}
    yield Case("binary_class", "xgboost_json", f"{new}/logistic.json", 1, threshold="0.5", **class_of)
    yield Case("binary_threshold", "xgboost_json", f"{new}/logistic.json", 1, threshold="0.3", **class_of)
    yield Case("binary_both", "xgboost_ubj", f"{new}/logistic.ubj", 2, **both)
    yield Case("binary_one", "xgboost_ubj", f"{new}/logistic.ubj", 1, **both)
    yield Case("binary_value", "xgboost", f"{old}/logistic.bin", 1, **value)
    yield Case("older_class", "xgboost", f"{old}/logistic.bin", 1, output_class="true", predict_proba="false")
    yield Case("older_value", "xgboost", f"{old}/squarederror.bin", 1, output_class="false")
    yield Case("base", "xgboost_json", f"{new}/logistic_base.json", 2, **both)
    for kind in ("softprob", "dart_softprob"):
        yield Case(f"{kind}_class", "xgboost_json", f"{new}/{kind}.json", 1, **class_of)
        yield Case(f"{kind}_all", "xgboost_json", f"{new}/{kind}.json", 3, **both)
    for kind in ("squarederror", "gamma", "poisson", "tweedie", "dart", "deep", "parallel", "pairwise", "ndcg"):
        yield Case(f"{kind}_value", "xgboost_json", f"{new}/{kind}.json", 1, **value)
    for kind, columns, parameters in (("regression", 1, value), ("binary", 2, both), ("binary", 1, class_of),
                                      ("multiclass", 3, both), ("multiclass", 1, class_of), ("forest", 1, value)):
        yield Case(f"lightgbm_{kind}_{columns}", "lightgbm", f"{light}/{kind}.txt", columns, **parameters)
    for kind, columns, parameters in (("xgboost_logistic", 2, both), ("xgboost_logistic", 1, class_of),
                                      ("lightgbm_binary", 1, value), ("lightgbm_multiclass", 3, both)):
        file = f"treelite-4.8.1/{kind}.tl"
        yield Case(f"checkpoint_{kind}_{columns}", "treelite_checkpoint", file, columns, **parameters)


def rows():
    random = np.random.default_rng(11)
    made = random.normal(size=(256, FEATURES)).astype(np.float32)
    made[random.random(made.shape) < 0.1] = np.nan
    return made


def started(repository):
    ports = [f"--{it}-port=0" for it in ("http", "grpc", "sagemaker", "metrics")]
    command = [MUSTER, f"--model-repository={repository}", "--drain-delay-secs=0", "--exit-on-error=false", *ports]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    address = None
    for line in process.stdout:
        if "service=http address=" in line:
            address = "127.0.0.1:" + line.rsplit(":", 1)[1].strip()
        if "ERROR" in line:
            print(line.strip())
        if "ready to serve" in line:
            return process, address
    sys.exit("muster did not start")


def ask(client, case, asked):
    given = triton.InferInput("input__0", list(asked.shape), "FP32")
    given.set_data_from_numpy(asked)
    return client.infer(case.name, [given]).as_numpy("output__0")


def main():
    asked, wrong = rows(), 0
    with tempfile.TemporaryDirectory() as folder:
        all_cases = list(cases())
        for case in all_cases:
            case.write(Path(folder))
        process, address = started(folder)
        try:
            client = triton.InferenceServerClient(address)
            for case in all_cases:
                expected = case.expected(asked)
                given = ask(client, case, asked).astype(np.float64)
                if given.shape != expected.shape:
                    print(f"{case.name}: {given.shape}, GTIL {expected.shape}")
                    wrong += 1
                    continue
                off = np.abs(given - expected) / np.maximum(1, np.abs(expected))
                is_wrong = TOLERANCE < off.max()
                wrong += int(is_wrong)
                print(f"{case.name:<24} worst {off.max():.1e}{'  WRONG' if is_wrong else ''}")
        finally:
            process.terminate()
            process.communicate()
    print(f"{len(all_cases)} configurations, {len(asked)} rows each, treelite {treelite.__version__}: {wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
