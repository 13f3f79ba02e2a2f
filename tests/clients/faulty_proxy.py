"""A server in front of another one, which asks for credentials and answers wrongly when it is told to (`faulty.py`).

    python3 tests/clients/faulty_proxy.py TARGET [--token | --bearer | --basic]

TARGET is `http://host:port`. Prints the port. With `--token` a request needs a token of `/token`, which the user `anna`
gets for her password `swordfish`, as registries of images have it. With `--bearer` it needs the token itself, and with
`--basic` the user and the password. Nothing is installed for it.
"""

import base64
import http.client
import http.server
import json
import sys
import threading
import urllib.parse

import faulty

TOKEN = "Bearer registry-secret"
USER = "Basic " + base64.b64encode(b"anna:swordfish").decode()
PASSED_ON = ("Accept", "Accept-Encoding", "Range")
PASSED_BACK = ("Content-Type", "Content-Range", "Accept-Ranges", "Docker-Content-Digest")


class Proxy(faulty.Handler):
    host, target, needs = "proxy", None, None

    def serve(self, path):
        credentials = self.headers.get("Authorization")
        port = self.server.server_port
        if path == "/token":
            if credentials != USER:
                return self.refuse("wrong user", {})
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            if not query["scope"][0].startswith("repository:") or query["service"] != ["tests"]:
                return self.answer(400, b"")
            return self.answer(200, json.dumps({"token": TOKEN.removeprefix("Bearer ")}).encode())
        if self.needs == "--token" and credentials != TOKEN:
            realm = f'Bearer realm="http://127.0.0.1:{port}/token",service="tests"'
            return self.refuse("authentication required", {"WWW-Authenticate": realm})
        if self.needs in ("--bearer", "--basic") and credentials != (TOKEN if self.needs == "--bearer" else USER):
            return self.refuse("authentication required", {})
        connection = http.client.HTTPConnection(self.target)
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        connection.request(self.command, self.path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        passed = {name: answer.headers[name] for name in PASSED_BACK if name in answer.headers}
        self.answer(answer.status, body, passed)
        connection.close()

    def refuse(self, message, headers):
        self.answer(401, json.dumps({"message": message}).encode(), headers)


def main():
    Proxy.state = faulty.State()
    Proxy.target = urllib.parse.urlsplit(sys.argv[1]).netloc
    Proxy.needs = sys.argv[2] if 2 < len(sys.argv) else None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    # Until whoever has started it closes its input.
    sys.stdin.read()


main()
