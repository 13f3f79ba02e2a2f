"""What Triton's interface has and this runtime does not have yet. Each raises an exception that says so."""

from enum import Enum

from muster_python.triton_tensor import TritonModelException


def _refuse(what, instead):
    raise TritonModelException(f"{what} is not supported yet: {instead}")


class MetricKind(Enum):
    """Kinds of metrics."""

    COUNTER = 0
    GAUGE = 1
    HISTOGRAM = 2


class MetricFamily:
    """Metrics of a model's own."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

    def __init__(self, name, description, kind):
        _refuse(f"MetricFamily ('{name}')", "a model cannot have metrics of its own")


def load_model(model_name, config="", files=None):
    _refuse(f"load_model('{model_name}')", "a model cannot load another model. Use the server's repository API")


def unload_model(model_name, unload_dependents=False):
    _refuse(f"unload_model('{model_name}')", "a model cannot unload another model. Use the server's repository API")


def is_model_ready(model_name, model_version=""):
    _refuse(
        f"is_model_ready('{model_name}')", "a model cannot ask for another model. Use the server's readiness API"
    )


class SharedMemory:
    """Triton's pool of shared memory."""

    def free_memory(self):
        _refuse("shared_memory.free_memory()", "the memory of a run is as large as --worker-arena-bytes says")
