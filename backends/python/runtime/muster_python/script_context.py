"""What a script is told of a request, and what it says of its answer beside the body."""

from muster_python import faults


class Headers(dict):
    """Headers of a request by name, whatever its case."""

    def __init__(self, headers):
        super().__init__(headers)
        self._names = {name.lower(): name for name in headers}

    def __getitem__(self, name):
        return super().__getitem__(self._names.get(name.lower(), name))

    def __contains__(self, name):
        return isinstance(name, str) and name.lower() in self._names

    def get(self, name, default=None):
        return self[name] if name in self else default


class RequestProcessor:
    """One request, and the status and headers of its answer."""

    def __init__(self, headers):
        self._headers = headers
        self.status, self.phrase = 200, None
        self.response_headers = {}

    def get_request_property(self, key):
        return self._headers.get(key)

    def get_request_properties(self):
        return self._headers

    def report_status(self, code, reason_phrase=None):
        self.status, self.phrase = code, reason_phrase

    def get_response_status_code(self):
        return self.status

    def get_response_status_phrase(self):
        return self.phrase

    def add_response_property(self, key, value):
        self.response_headers[key] = value

    def get_response_headers(self):
        return self.response_headers

    def get_response_header(self, key):
        return self.response_headers.get(key)


class Context:
    """What functions of a script get that take one argument more. It belongs to one request, or to the load."""

    def __init__(self, model_name, system_properties, request_id="", headers=None):
        self.model_name, self.system_properties = model_name, system_properties
        self.manifest = {"model": {"modelName": model_name}}
        self.request_processor = [RequestProcessor(Headers(headers or {}))]
        self.request_ids = {0: request_id}
        self.metrics = Metrics(model_name)

    def get_request_id(self, idx=0):
        return self.request_ids.get(idx)

    def get_request_header(self, idx, key):
        return self.request_processor[idx].get_request_property(key)

    def get_all_request_header(self, idx):
        return self.request_processor[idx].get_request_properties()

    def set_response_content_type(self, idx, value):
        self.set_response_header(idx, "content-type", value)

    def get_response_content_type(self, idx):
        return self.get_response_headers(idx).get("content-type")

    def get_response_status(self, idx):
        processor = self.request_processor[idx]
        return processor.status, processor.phrase

    def set_response_status(self, code=200, phrase="", idx=0):
        self.request_processor[idx].report_status(code, phrase)

    def set_all_response_status(self, code=200, phrase=""):
        for it in self.request_processor:
            it.report_status(code, phrase)

    def get_response_headers(self, idx):
        return self.request_processor[idx].get_response_headers()

    def set_response_header(self, idx, key, value):
        self.request_processor[idx].add_response_property(key, value)


class Metrics:
    """Metrics of a script's own: they are lines of the log."""

    def __init__(self, model_name):
        self._model_name = model_name

    def add_metric(self, name, value, idx=None, unit=""):
        faults.say("DEBUG", f"metric {name} of '{self._model_name}': {value} {unit}".rstrip())

    def add_counter(self, name, value, idx=None):
        self.add_metric(name, value, idx)

    def add_time(self, name, value, idx=None, unit="ms"):
        self.add_metric(name, value, idx, unit)

    def add_size(self, name, value, idx=None, unit="MB"):
        self.add_metric(name, value, idx, unit)

    def add_percent(self, name, value, idx=None):
        self.add_metric(name, value, idx, "percent")

    def add_error(self, name, value):
        self.add_metric(name, value)
