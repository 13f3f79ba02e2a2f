"""The functions that a script does not define: those of the toolkit that its model is for."""

import io
import json
import os
import sys

import numpy as np

from muster_python import script_codecs as codecs
from muster_python.script_codecs import CSV, JSON, LIBSVM, UnsupportedFormatError, plain_type

# Ends of the names of networks, and what pipelines with them are for.
_TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "ForConditionalGeneration": "text2text-generation",
    "ForImageClassification": "image-classification",
    "ForObjectDetection": "object-detection",
    "ForAudioClassification": "audio-classification",
    "ForCTC": "automatic-speech-recognition",
    "ForSpeechSeq2Seq": "automatic-speech-recognition",
}


def by_name(name, device):
    """The defaults of a toolkit. `None` for `auto`, which the model decides."""
    if name in (None, "", "auto"):
        return None
    if name not in _TOOLKITS:
        raise ValueError(f"script flavor is '{name}', expected auto, {', '.join(_TOOLKITS)}")
    return _TOOLKITS[name](device)


def of_directory(directory, defines_model_fn, device):
    """What the files of a model and the environment say before a model is made. `None`: nothing."""
    files = ("config.json", "model_index.json")
    has_pipeline = any(os.path.isfile(os.path.join(directory, it)) for it in files)
    if "HF_TASK" in os.environ or (has_pipeline and not defines_model_fn):
        return HuggingFace(device)
    if defines_model_fn:
        return None
    has_module = any(it.endswith((".pt", ".pth")) for it in os.listdir(directory))
    return PyTorch(device) if has_module else SageMaker(device)


def of_model(model, device):
    """By the object that `model_fn` has returned."""
    torch, xgboost = sys.modules.get("torch"), sys.modules.get("xgboost")
    if torch is not None and isinstance(model, torch.nn.Module):
        return PyTorch(device)
    if xgboost is not None and isinstance(model, xgboost.Booster):
        return XGBoost(device)
    if hasattr(model, "predict"):
        return SkLearn(device)
    return HuggingFace(device) if callable(model) else SageMaker(device)


class SageMaker:
    """The plain toolkit."""

    def __init__(self, device):
        self._device = device

    def model(self, directory):
        raise NotImplementedError(
            f"the script defines no model_fn(model_dir), and '{directory}' has no file that says how to load it: "
            "model.pt, or config.json of Hugging Face"
        )

    def input(self, data, content_type):
        return codecs.decode(data, content_type)

    def predict(self, data, model):
        raise NotImplementedError(
            f"the script defines no predict_fn(data, model), and {type(model)} has no method predict and is no function"
        )

    def output(self, prediction, accept):
        for content_type in codecs.parse_accept(accept):
            kind = JSON if plain_type(content_type) == codecs.ANY else plain_type(content_type)
            if kind in codecs.ENCODED:
                return codecs.encode(prediction, kind), kind
        raise UnsupportedFormatError(accept, codecs.ENCODED)

    def refusal(self, error, text):
        """The status and body of an exception, where it is no plain 500. `None`: it is."""
        return None


class SkLearn(SageMaker):
    """scikit-learn's."""

    def input(self, data, content_type):
        array = super().input(data, content_type)
        if array.ndim == 1:
            array = array.reshape(1, -1)
        return array.astype(np.float32) if plain_type(content_type) in codecs.UTF8_TYPES else array

    def predict(self, data, model):
        return model.predict(data)


class XGBoost(SageMaker):
    """XGBoost's: rows become a `DMatrix`."""

    def input(self, data, content_type):
        import xgboost

        kind = plain_type(content_type)
        if kind == CSV:
            return xgboost.DMatrix(_csv_rows(data))
        if kind in (LIBSVM, "text/x-libsvm"):
            return xgboost.DMatrix(_libsvm_rows(data))
        if kind not in (JSON, codecs.NPY):
            raise UnsupportedFormatError(content_type, (CSV, LIBSVM, JSON, codecs.NPY))
        array = super().input(data, content_type)
        return xgboost.DMatrix(array.reshape(1, -1) if array.ndim == 1 else array)

    def predict(self, data, model):
        return model.predict(data, validate_features=False)


class PyTorch(SageMaker):
    """PyTorch's: TorchScript, or a module of the script's own."""

    def __init__(self, device):
        import torch

        self._torch = torch
        super().__init__(torch.device(device))

    def model(self, directory):
        files = [it for it in sorted(os.listdir(directory)) if it.endswith((".pt", ".pth"))]
        name = "model.pt" if "model.pt" in files else files[0] if len(files) == 1 else None
        if name is None:
            found = f"it has {', '.join(files)}" if files else "it has none"
            raise FileNotFoundError(
                f"the script defines no model_fn, and '{directory}' has no model.pt and no other single file "
                f"*.pt or *.pth: {found}"
            )
        return self._torch.jit.load(os.path.join(directory, name), map_location=self._device)

    def input(self, data, content_type):
        array = super().input(data, content_type)
        if plain_type(content_type) in codecs.UTF8_TYPES:
            return self._torch.tensor(array, dtype=self._torch.float32, device=self._device)
        return self._torch.from_numpy(array).to(self._device)

    def predict(self, data, model):
        with self._torch.no_grad():
            return model.to(self._device).eval()(data)

    def output(self, prediction, accept):
        if isinstance(prediction, self._torch.Tensor):
            prediction = prediction.detach().cpu().numpy().tolist()
        return super().output(prediction, accept)


class HuggingFace(SageMaker):
    """Hugging Face's: pipelines, and functions."""

    def model(self, directory):
        import transformers

        device = 0 if str(self._device).startswith("cuda") else -1
        return transformers.pipeline(_task(directory), model=directory, device=device)

    def input(self, data, content_type):
        kind = plain_type(content_type) or JSON
        if kind == JSON:
            return json.loads(data)
        if kind == CSV:
            return _csv_inputs(data)
        if kind.startswith("image/"):
            from PIL import Image

            return {"inputs": Image.open(io.BytesIO(data)).convert("RGB")}
        if kind.startswith("audio/"):
            return {"inputs": data}
        return super().input(data, content_type)

    def predict(self, data, model):
        if not isinstance(data, dict):
            return model(data)
        parameters = data.pop("parameters", None) or {}
        return model(data.pop("inputs", data), **parameters)

    def output(self, prediction, accept):
        body, kind = super().output(prediction, accept)
        return (json.dumps(json.loads(body), separators=(",", ":")), kind) if kind == JSON else (body, kind)

    def refusal(self, error, text):
        body = {"code": 400, "type": "InternalServerException", "message": text}
        return 400, JSON, json.dumps(body)


_TOOLKITS = {
    "sagemaker": SageMaker,
    "pytorch": PyTorch,
    "huggingface": HuggingFace,
    "sklearn": SkLearn,
    "xgboost": XGBoost,
}


def _task(directory):
    """What the pipeline of a directory is for."""
    if os.environ.get("HF_TASK"):
        return os.environ["HF_TASK"]
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        architectures = json.load(file).get("architectures") or [""]
    for end, task in _TASKS.items():
        if architectures[0].endswith(end):
            return task
    raise ValueError(
        f"config.json has the architecture '{architectures[0]}', which does not say a task: set HF_TASK"
    )


def _csv_rows(data):
    """Rows of numbers; an empty place is a missing value."""
    text = data if isinstance(data, str) else data.decode("utf-8")
    lines = [it for it in text.strip().splitlines() if it.strip()]
    if not lines:
        raise ValueError("text/csv: no rows")
    delimiter = next((it for it in ",;\t|" if it in lines[0]), ",")
    rows = [[float(it) if it.strip() else np.nan for it in line.split(delimiter)] for line in lines]
    if len({len(it) for it in rows}) != 1:
        raise ValueError("text/csv: rows have different numbers of columns")
    return np.array(rows, np.float32)


def _libsvm_rows(data):
    """`label index:value ..` → rows; what is not said is a missing value."""
    text = data if isinstance(data, str) else data.decode("utf-8")
    rows = []
    for line in text.strip().splitlines():
        pairs = [it.split(":") for it in line.split() if ":" in it]
        rows.append({int(index): float(value) for index, value in pairs})
    array = np.full((len(rows), 1 + max((max(it, default=-1) for it in rows), default=-1)), np.nan, np.float32)
    for at, row in enumerate(rows):
        array[at, list(row)] = list(row.values())
    return array


def _csv_inputs(data):
    """A table with a head: `inputs`, or the columns by their names."""
    import csv

    text = data if isinstance(data, str) else data.decode("utf-8")
    rows = list(csv.DictReader(io.StringIO(text)))
    if not rows:
        raise ValueError("text/csv: no rows below the head")
    if "inputs" in rows[0]:
        return {"inputs": [it["inputs"] for it in rows]}
    return {"inputs": rows}
