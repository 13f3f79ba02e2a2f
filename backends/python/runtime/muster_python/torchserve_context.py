"""What handlers of TorchServe are told of the model and of the requests of a run."""

import os

from muster_python import faults, script_context


class Context(script_context.Context):
    """One for each instance. The requests in it are those of the run."""

    def __init__(self, model_name, system_properties, manifest, model_yaml_config):
        super().__init__(model_name, system_properties)
        self.manifest, self.model_yaml_config = manifest, model_yaml_config
        # At the load there is no request.
        self.request_ids = self.request_processor = None
        self.metrics = Metrics(model_name)
        self.stopping_criteria = None
        self.header_key_sequence_id = os.environ.get("TS_REQUEST_SEQUENCE_ID", "ts_request_sequence_id")
        self.header_key_sequence_start = os.environ.get("TS_REQUEST_SEQUENCE_START", "ts_request_sequence_start")
        self.header_key_sequence_end = os.environ.get("TS_REQUEST_SEQUENCE_END", "ts_request_sequence_end")
        # Sends a part of each answer; none outside of a run.
        self.send_parts = None

    def begin(self, ids, headers, send_parts):
        """A run begins, with these requests."""
        self.request_ids = dict(enumerate(ids))
        self.request_processor = [script_context.RequestProcessor(script_context.Headers(it)) for it in headers]
        self.send_parts = send_parts

    def get_request_id(self, idx=0):
        return None if self.request_ids is None else self.request_ids.get(idx)

    def get_sequence_id(self, idx):
        return self.get_request_header(idx, self.header_key_sequence_id)

    def set_response_status(self, code=200, phrase="", idx=0):
        if self.request_processor is not None:
            super().set_response_status(code, phrase, idx)


class Metrics(script_context.Metrics):
    """Metrics of a handler's own: lines of the log."""

    def add_metric(self, name, value, unit="", idx=None, dimensions=None, metric_type=None):
        faults.say("DEBUG", f"metric {name} of '{self._model_name}': {value} {unit or ''}".rstrip())

    def add_counter(self, name, value, idx=None, dimensions=None):
        self.add_metric(name, value)

    def add_time(self, name, value, idx=None, unit="ms", dimensions=None, metric_type=None):
        self.add_metric(name, value, unit)

    def add_size(self, name, value, idx=None, unit="MB", dimensions=None, metric_type=None):
        self.add_metric(name, value, unit)

    def add_percent(self, name, value, idx=None, dimensions=None, metric_type=None):
        self.add_metric(name, value, "percent")

    def add_error(self, name, value, dimensions=None):
        self.add_metric(name, value)

    def add_metric_to_cache(self, metric_name, unit="", dimension_names=None, metric_type=None):
        return Metric(self, metric_name, unit)

    def get_metric(self, metric_name, metric_type=None):
        return Metric(self, metric_name, "")


class Metric:
    """One that a handler keeps."""

    def __init__(self, metrics, name, unit):
        self._metrics, self._name, self._unit = metrics, name, unit

    def add_or_update(self, value, dimension_values=(), request_id=""):
        self._metrics.add_metric(self._name, value, self._unit)

    update = add_or_update
