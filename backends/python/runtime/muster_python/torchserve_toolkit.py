"""What handlers import from the package `ts`, where TorchServe is not installed: the handler that others are made of,
and the functions around it."""

import importlib.util
import inspect
import json
import os
import sys
import types

from muster_python import faults, torchserve_context
from muster_python.torchserve_context import Context

# The classifiers that come with TorchServe are in its own package alone.
SHIPPED = ("image_classifier", "image_segmenter", "object_detector", "text_classifier")

BASE = "base_handler"


class PredictionException(Exception):
    """An error with a status."""

    def __init__(self, message, error_code=500):
        super().__init__(message)
        self.message, self.error_code = message, error_code


def list_classes_from_module(module, parent_class=None):
    """The classes that a module defines itself, those below `parent_class` where it is given."""
    classes = [it for _, it in inspect.getmembers(module, inspect.isclass) if it.__module__ == module.__name__]
    return [it for it in classes if parent_class is None or issubclass(it, parent_class)]


def load_label_mapping(mapping_file_path):
    """Names by class, of a file `index_to_name.json`; `None` without one."""
    if not os.path.isfile(mapping_file_path):
        faults.say("DEBUG", f"{mapping_file_path} is not there: answers have no names of classes")
        return None
    with open(mapping_file_path, encoding="utf-8") as file:
        mapping = json.load(file)
    if not isinstance(mapping, dict):
        raise ValueError(f"'{mapping_file_path}': expected an object of names by class")
    names = mapping.get("object_type_names")
    if isinstance(names, list):
        return {str(at): it for at, it in enumerate(names)}
    # As ImageNet's: an identifier in front of the name.
    return {key: it[-1] if isinstance(it, list) else it for key, it in mapping.items()}


def map_class_to_label(probs, mapping=None, lbl_classes=None):
    """An object for each row: probabilities by the names of their classes."""

    def name(index):
        return str(index) if mapping is None else mapping[str(index)]

    classes = lbl_classes if lbl_classes is not None else [range(len(it)) for it in probs]
    return [{name(at): it for at, it in zip(indices, row)} for indices, row in zip(classes, probs)]


def send_intermediate_predict_response(ret, req_id_map, message, code, context):
    """Sends a part of each answer of the run."""
    if context.send_parts is None:
        raise RuntimeError("parts of an answer can be sent in a run only")
    context.send_parts(ret)


def timed(function):
    """TorchServe measures what it decorates where a configuration asks for it."""
    return function


class BaseHandler:
    """Loads a TorchScript file, or a network of `modelFile` with its weights, and runs it between two steps that
    handlers write themselves."""

    def __init__(self):
        self.model = self.mapping = self.device = self.context = None
        self.model_pt_path = self.manifest = self.map_location = None
        self.initialized = self.explain = False
        self.target = 0

    def initialize(self, context):
        import torch

        self.context, self.manifest = context, context.manifest
        self.model_yaml_config = context.model_yaml_config
        directory, number = (context.system_properties.get(it) for it in ("model_dir", "gpu_id"))
        self.map_location = "cuda" if torch.cuda.is_available() and number is not None else "cpu"
        self.device = torch.device(f"cuda:{number}" if self.map_location == "cuda" else "cpu")
        model = self.manifest["model"]
        if model.get("serializedFile"):
            self.model_pt_path = os.path.join(directory, model["serializedFile"])
        if model.get("modelFile"):
            self.model = self._load_pickled_model(directory, model["modelFile"], self.model_pt_path).to(self.device)
        elif (self.model_pt_path or "").endswith(".pt"):
            self.model = self._load_torchscript_model(self.model_pt_path)
        else:
            raise RuntimeError(
                f"BaseHandler loads a TorchScript file *.pt, or the weights of a modelFile, and the manifest names "
                f"{model.get('serializedFile')}: load it in your own initialize"
            )
        self.model.eval()
        self.mapping = load_label_mapping(os.path.join(directory, "index_to_name.json"))
        self.initialized = True

    def _load_torchscript_model(self, model_pt_path):
        import torch

        return torch.jit.load(model_pt_path, map_location=self.device)

    def _load_pickled_model(self, model_dir, model_file, model_pt_path):
        import torch

        module = importlib.import_module(os.path.splitext(os.path.basename(model_file))[0])
        classes = list_classes_from_module(module)
        if len(classes) != 1:
            found = ", ".join(it.__name__ for it in classes) or "none"
            raise ValueError(f"'{model_file}' has to define the one class of the network, it defines {found}")
        model = classes[0]()
        if model_pt_path:
            model.load_state_dict(torch.load(model_pt_path, map_location=self.device))
        return model

    def preprocess(self, data):
        import torch

        return torch.as_tensor(data, device=self.device)

    def inference(self, data, *args, **kwargs):
        import torch

        with torch.inference_mode():
            return self.model(data.to(self.device), *args, **kwargs)

    def postprocess(self, data):
        return data.tolist()

    def handle(self, data, context):
        self.context = context
        return self.postprocess(self.inference(self.preprocess(data)))

    def get_device(self):
        return self.device


# What stands in for a module, by its name.
_STAND_INS = {
    "context": {"Context": Context, "RequestProcessor": torchserve_context.script_context.RequestProcessor},
    "torch_handler.base_handler": {"BaseHandler": BaseHandler},
    "utils.util": {
        it.__name__: it
        for it in (PredictionException, list_classes_from_module, load_label_mapping, map_class_to_label)
    },
    "handler_utils.utils": {"send_intermediate_predict_response": send_intermediate_predict_response},
    "handler_utils.timer": {"timed": timed},
    "protocol.otf_message_handler": {"send_intermediate_predict_response": send_intermediate_predict_response},
    "metrics.metrics_store": {"MetricsStore": torchserve_context.Metrics},
}


def offer():
    """Makes them importable. A package that is installed stays what it is, but for what sends parts."""
    if "ts" in sys.modules or importlib.util.find_spec("ts") is not None:
        for name in ("ts.handler_utils.utils", "ts.protocol.otf_message_handler"):
            try:
                importlib.import_module(name).send_intermediate_predict_response = send_intermediate_predict_response
            except ImportError as error:
                faults.say("DEBUG", f"{name} of the installed TorchServe cannot be imported: {error}")
        return
    for name, offered in _STAND_INS.items():
        module = _module("ts." + name)
        for key, it in offered.items():
            setattr(module, key, it)


def _module(name):
    """The module of that name, made with the packages around it."""
    if name in sys.modules:
        return sys.modules[name]
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    package, _, inner = name.rpartition(".")
    if package:
        setattr(_module(package), inner, module)
    return module
