"""What the servers of these tests share that answer wrongly when they are told to: `hub_server.py`, `faulty_proxy.py`.

`POST /_faults` sets what goes wrong, a list of objects; each is for requests whose line contains its `path`, and happens
`times` times. The line is `<method> <host> <path>`:

    {"path": "model.onnx", "times": 1, "fault": "cut", "bytes": 1000}         the connection ends after so many bytes
    {.., "fault": "corrupt"}                                                  the last byte is another one
    {.., "fault": "status", "status": 429, "headers": {"Retry-After": "0"}}   this answer, without a body
    {.., "fault": "header", "headers": {"X-Linked-Size": "9"}}                the answer, with other headers
    {.., "fault": "gather", "count": 4}                                       an answer when so many have come, else 400

`GET /_log` has each request since then: `[method, host, path, has credentials, range]`.
"""

import http.server
import json
import threading
import urllib.parse


class State:
    def __init__(self):
        self.lock = threading.Lock()
        self.come = threading.Condition(self.lock)
        self.log, self.faults, self.gathered = [], [], 0

    def fault(self, path):
        with self.lock:
            for fault in self.faults:
                if fault["path"] in path and 0 < fault["times"]:
                    fault["times"] -= 1
                    return fault
        return {}

    def gather(self, count):
        """Waits until so many requests wait here; false where they do not come."""
        with self.come:
            self.gathered += 1
            self.come.notify_all()
            return self.come.wait_for(lambda: count <= self.gathered, timeout=30)


class Handler(http.server.BaseHTTPRequestHandler):
    """Subclasses have `state`, `host`, and `serve(path)`."""

    protocol_version = "HTTP/1.1"
    state, host = None, None

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.state.lock:
            self.state.faults, self.state.log[:], self.state.gathered = json.loads(body), [], 0
        self.answer(200, b"")

    def do_HEAD(self):
        self.receive()

    def do_GET(self):
        self.receive()

    def receive(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/_log":
            with self.state.lock:
                return self.answer(200, json.dumps(self.state.log).encode())
        has_credentials = self.headers.get("Authorization") is not None
        with self.state.lock:
            self.state.log.append([self.command, self.host, path, has_credentials, self.headers.get("Range")])
        self.fault = self.state.fault(f"{self.command} {self.host} {path}")
        if self.fault.get("fault") == "status":
            return self.answer(self.fault["status"], b"", self.fault.get("headers", {}))
        if self.fault.get("fault") == "gather" and not self.state.gather(self.fault["count"]):
            return self.answer(400, b"")
        self.serve(path)

    def answer(self, status, body, headers={}):
        fault = getattr(self, "fault", {})
        self.send_response(status)
        all_headers = {"Content-Length": str(len(body))} | headers
        if fault.get("fault") == "header":
            all_headers |= fault["headers"]
        for name, value in all_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.get("fault") == "corrupt" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault.get("fault") == "cut":
            self.wfile.write(body[:fault["bytes"]])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(body)
