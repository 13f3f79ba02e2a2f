"""The part of Triton's interface that is native there. Models import it seldom."""

from enum import IntEnum

from muster_python import faults
from muster_python.bls import is_model_ready, load_model, unload_model  # noqa: F401
from muster_python.metrics import MetricFamily, MetricKind  # noqa: F401
from muster_python.triton_request import (  # noqa: F401
    InferenceRequest,
    InferenceResponse,
    InferenceResponseSender,
    InferenceTrace,
    PreferredMemory,
    TritonError,
)
from muster_python.triton_tensor import Tensor, TritonModelException  # noqa: F401


class MemoryType(IntEnum):
    """Where memory is."""

    TRITONSERVER_MEMORY_GPU = 0
    TRITONSERVER_MEMORY_CPU = 1


TRITONSERVER_MEMORY_GPU = MemoryType.TRITONSERVER_MEMORY_GPU
TRITONSERVER_MEMORY_CPU = MemoryType.TRITONSERVER_MEMORY_CPU


class SharedMemory:
    """Triton's pool of shared memory."""

    def free_memory(self):
        raise TritonModelException(
            "shared_memory.free_memory() is not supported: the memory of a run is as large as --worker-arena-bytes says"
        )


shared_memory = SharedMemory()


class LogLevel(IntEnum):
    """Levels of the server's log."""

    INFO = 0
    WARNING = 1
    ERROR = 2
    VERBOSE = 3


# As the server reads them at the beginning of a line.
_WORDS = {LogLevel.INFO: "INFO", LogLevel.WARNING: "WARN", LogLevel.ERROR: "ERROR", LogLevel.VERBOSE: "DEBUG"}


class Logger:
    """Writes to the server's log."""

    LogLevel = LogLevel
    INFO, WARNING, ERROR, VERBOSE = LogLevel.INFO, LogLevel.WARNING, LogLevel.ERROR, LogLevel.VERBOSE

    @staticmethod
    def log(message, level=LogLevel.INFO):
        faults.say(_WORDS[level], str(message))

    @staticmethod
    def log_info(message):
        faults.say("INFO", str(message))

    @staticmethod
    def log_warn(message):
        faults.say("WARN", str(message))

    @staticmethod
    def log_error(message):
        faults.say("ERROR", str(message))

    @staticmethod
    def log_verbose(message):
        faults.say("DEBUG", str(message))
