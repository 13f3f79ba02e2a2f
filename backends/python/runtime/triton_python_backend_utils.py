"""Triton's interface for models in Python: `import triton_python_backend_utils as pb_utils`."""

import numpy as np

from c_python_backend_utils import (  # noqa: F401
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    Logger,
    MetricFamily,
    PreferredMemory,
    Tensor,
    TritonError,
    TritonModelException,
    is_model_ready,
    load_model,
    unload_model,
)
from muster_python.tensors import BY_CONFIG, BYTES, KINDS, join_bytes, split_bytes
from muster_python.triton_config import ModelConfig, is_decoupled, port_by_name  # noqa: F401

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2

# numpy's types by their names in a configuration. BF16 has none.
TRITON_STRING_TO_NUMPY = {it.config: it.numpy.type for it in KINDS if it.name != "BF16"}

_NUMPY_BY_NUMBER = {it.number: it.numpy.type for it in KINDS if it.name != "BF16"}
_NUMBER_BY_NUMPY = {it.numpy: it.number for it in KINDS if it.name != "BF16"}


def get_input_tensor_by_name(inference_request, name):
    """The input of that name. `None` if the request has none."""
    return next((it for it in inference_request.inputs() if it.name() == name), None)


def get_output_tensor_by_name(inference_response, name):
    """The output of that name. `None` if the response has none."""
    return next((it for it in inference_response.output_tensors() if it.name() == name), None)


def get_input_config_by_name(model_config, name):
    """What the configuration says of an input. `None` if it has none of that name."""
    return port_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    """What the configuration says of an output. `None` if it has none of that name."""
    return port_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    """May a request have any number of responses?"""
    return is_decoupled(model_config)


def triton_to_numpy_type(data_type):
    """numpy's type by the number of a type. `None` if there is none."""
    return _NUMPY_BY_NUMBER.get(data_type)


def numpy_to_triton_type(data_type):
    """The number of a type of numpy's. `None` if there is none."""
    data_type = np.dtype(data_type)
    return BYTES.number if data_type.kind == "S" else _NUMBER_BY_NUMPY.get(data_type)


def triton_string_to_numpy(triton_type_string):
    """numpy's type by the name of a type in a configuration, as `TYPE_FP32`."""
    if triton_type_string not in TRITON_STRING_TO_NUMPY:
        known = "TYPE_BF16 has none in numpy" if triton_type_string in BY_CONFIG else "as TYPE_FP32"
        raise KeyError(f"{triton_type_string}: expected the name of a type, {known}")
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def serialize_byte_tensor(input_tensor):
    """The elements of an array of `bytes`, each behind its length. `None` for numbers."""
    if input_tensor.size == 0:
        return ()
    if input_tensor.dtype != object and input_tensor.dtype.kind != "S":
        return None
    return join_bytes(input_tensor)


def deserialize_bytes_tensor(encoded_tensor):
    """Elements, each behind its length → an array of `bytes`, of one dimension."""
    return split_bytes(bytes(encoded_tensor))


def get_model_dir():
    """The directory of the model's file. The runtime replaces this function when it loads a model."""
    raise TritonModelException("get_model_dir: no model is loaded")
