"""What clients do: health checks, the three usual formats of a request, and many of them at once."""

import base64
import http.client
import json
import socket
import struct
import threading
import time

from engine import Failed


def ask(address, port, path, body=None, headers=None):
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.request("POST" if body is not None else "GET", path, body, headers or {})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def status(address, port, path):
    """The status of a GET; None where nobody listens."""
    try:
        return ask(address, port, path)[0]
    except OSError:
        return None


def speaks_http2(address, port):
    """Does what listens there answer the greeting of HTTP/2 with settings, as every gRPC server does?"""
    greeting, settings = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    try:
        with socket.create_connection((address, port), timeout=10) as connection:
            connection.sendall(greeting + settings)
            return connection.makefile("rb").read(4)[3:] == b"\x04"
    except OSError:
        return False


def wait_healthy(container, port=8080, path="/ping", seconds=30):
    """Asks until the answer is 200: what was answered before, and the moment. The body must be empty."""
    address, before = container.address(), []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            code, _, body = ask(address, port, path)
        except OSError:
            code, body = None, b""
        if code == 200:
            if body:
                raise Failed(f"{path}: expected an empty body, given {body[:60]}")
            return before, time.monotonic()
        if before[-1:] != [code]:
            before.append(code)
        if not container.inspect()["State"]["Running"] and code is None:
            raise Failed(f"it has ended: {container.log().strip().splitlines()[-1:]}")
        time.sleep(0.002)
    raise Failed(f"{path} was not 200 within {seconds} s: {before}")


def announce(address, port, path, length):
    """Status and body of the reply to a POST of that length, of which nothing but the head is sent."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.putrequest("POST", path)
        connection.putheader("Content-Length", str(length))
        connection.endheaders()
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


class Example:
    """The most rows of a file of tests/fixtures/expected, and the right answers; one FP32 input and output."""

    def __init__(self, path):
        cases = json.loads(path.read_text())["cases"]
        case = max(cases, key=lambda it: len(str(it["inputs"])))
        (self.input, given), (self.output, expected) = *case["inputs"].items(), *case["outputs"].items()
        self.shape, self.rows = given["shape"], floats(base64.b64decode(given["raw"]))
        self.expected = floats(base64.b64decode(expected["raw"]))

    def check(self, found, what):
        """The numbers must be the expected ones."""
        near = len(found) == len(self.expected)
        near = near and all(abs(a - b) <= 1e-4 * max(1, abs(b)) for a, b in zip(found, self.expected))
        if not near:
            raise Failed(f"{what}: expected {self.expected[:4]}.., given {found[:4]}..")

    def check_csv(self, reply):
        """A reply as CSV."""
        self.check([float(it) for it in reply.decode().replace(",", "\n").split()], "CSV")

    def check_json(self, reply):
        """A reply as KServe v2 in JSON."""
        self.check(json.loads(reply)["outputs"][0]["data"], "JSON")

    def check_binary(self, reply):
        """The tensor behind the head of a reply as KServe v2."""
        self.check(floats(reply), "binary tensors")

    def csv(self):
        """A line for each row."""
        width = self.shape[1]
        lines = [self.rows[at : at + width] for at in range(0, len(self.rows), width)]
        return "\n".join(",".join(map(repr, line)) for line in lines)

    def kserve_json(self):
        """KServe v2 with numbers as text."""
        tensor = {"name": self.input, "shape": self.shape, "datatype": "FP32", "data": self.rows}
        return json.dumps({"inputs": [tensor]})

    def kserve_binary(self):
        """KServe v2 with numbers as bytes: head, and length of its JSON."""
        raw = struct.pack(f"<{len(self.rows)}f", *self.rows)
        tensor = {"name": self.input, "shape": self.shape, "datatype": "FP32"}
        tensor["parameters"] = {"binary_data_size": len(raw)}
        output = {"name": self.output, "parameters": {"binary_data": True}}
        head = json.dumps({"inputs": [tensor], "outputs": [output]}).encode()
        return head + raw, len(head)


def floats(raw):
    """FP32 bytes as numbers."""
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


class Load:
    """Clients that send one request after the other over connections that they keep, until the port is closed."""

    def __init__(self, address, port, body, headers, clients):
        self.request = (address, port, body, headers)
        self.stopping = threading.Event()
        self.answered, self.failures = [0] * clients, []
        self.threads = [threading.Thread(target=self.client, args=(at,)) for at in range(clients)]
        for thread in self.threads:
            thread.start()

    def client(self, at):
        """One client. A connection that cannot be made is the end; whatever was sent must be answered with 200."""
        address, port, body, headers = self.request
        connection = http.client.HTTPConnection(address, port, timeout=30)
        while not self.stopping.is_set():
            if connection.sock is None:
                try:
                    connection.connect()
                except OSError:
                    return
            try:
                connection.request("POST", "/invocations", body, headers)
                reply = connection.getresponse()
                reply.read()
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                return
            if reply.status != 200:
                self.failures.append(f"status {reply.status}")
            self.answered[at] += 1

    def finish(self):
        """Waits for all clients: requests that were answered, and what failed."""
        for thread in self.threads:
            thread.join()
        return sum(self.answered), self.failures

    def stop(self):
        """Ends the clients: requests that were answered, and what failed."""
        self.stopping.set()
        return self.finish()
