"""A hub as `huggingface_hub` asks one, of the folders below FOLDER: `<owner>/<name>/<files>`.

    python3 tests/clients/hub_server.py FOLDER [CERTIFICATE KEY]

Prints the port of the hub, and where a certificate is given that of a host with TLS that has the same files:
`/<owner>/<name>/<file>`. Large files lie on another host, as on the real one: the hub leads there. A folder with
the file `.private` needs the token `hub-secret`. Nothing is installed for it.

It answers wrongly when it is told to, and says what it was asked: `faulty.py`.
"""

import hashlib
import http.server
import json
import pathlib
import ssl
import sys
import threading
import urllib.parse

import faulty

TOKEN = "hub-secret"
LARGE = (".onnx", ".onnx_data", ".safetensors", ".bin", ".pkl")


class Hub(faulty.State):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.servers = {}

    def files(self, model):
        root = self.folder / model
        found = (it for it in root.rglob("*") if it.is_file() and it.name != ".private")
        return {it.relative_to(root).as_posix(): it.read_bytes() for it in sorted(found)}

    def commit(self, model):
        contents = [(name, git(content)) for name, content in self.files(model).items()]
        return hashlib.sha1(repr(contents).encode()).hexdigest()


def git(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(faulty.Handler):
    @property
    def hub(self):
        return self.state

    def serve(self, path):
        credentials = self.headers.get("Authorization")
        parts = path.strip("/").split("/")
        if self.host != "hub":
            return self.content(self.hub.files("/".join(parts[:2]))["/".join(parts[2:])], {})
        if parts[:2] == ["api", "models"]:
            model, rest = "/".join(parts[2:4]), parts[4:]
        else:
            model, rest = "/".join(parts[:2]), parts[2:]
        root = self.hub.folder / model
        if not root.is_dir():
            return self.answer(401 if credentials is None else 404, b"", error("RepoNotFound", "Repository not found"))
        if (root / ".private").exists() and credentials != f"Bearer {TOKEN}":
            return self.answer(401, b"", error("RepoNotFound", "Invalid username or password."))
        commit = self.hub.commit(model)
        revision = urllib.parse.unquote(rest[1]) if 1 < len(rest) else "main"
        if revision not in ("main", "v1", "refs/pr/1", commit):
            return self.answer(404, b"", error("RevisionNotFound", f"Invalid rev id: {revision}"))
        files = self.hub.files(model)
        if parts[0] == "api" and rest[0] == "revision":
            siblings = [{"rfilename": it} for it in files]
            return self.json({"id": model, "modelId": model, "sha": commit, "siblings": siblings, "private": False})
        if parts[0] == "api" and rest[0] == "tree":
            return self.json([self.entry(*it) for it in files.items()])
        name = urllib.parse.unquote("/".join(rest[2:]))
        if name not in files:
            return self.answer(404, b"", error("EntryNotFound", "Entry not found") | {"X-Repo-Commit": commit})
        headers = {"X-Repo-Commit": commit, "ETag": f'"{git(files[name])}"'}
        if not name.endswith(LARGE):
            return self.content(files[name], headers)
        digest = hashlib.sha256(files[name]).hexdigest()
        port = self.hub.servers["cdn"].server_port
        location = f"http://localhost:{port}/{model}/{name}?signature=swordfish"
        linked = {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(files[name])), "Location": location}
        return self.answer(302, b"", headers | linked)

    def entry(self, name, content):
        entry = {"type": "file", "path": name, "size": len(content), "oid": git(content)}
        if name.endswith(LARGE):
            entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
        return entry

    def json(self, value):
        self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def content(self, content, headers):
        asked = self.headers.get("Range", "")
        headers = headers | {"Accept-Ranges": "bytes"}
        if not asked.startswith("bytes="):
            return self.answer(200, content, headers)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        first = int(first)
        last = min(int(last), len(content) - 1) if last else len(content) - 1
        if len(content) <= first:
            return self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        said = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return self.answer(206, content[first:last + 1], headers | said)


def error(code, message):
    return {"X-Error-Code": code, "X-Error-Message": message}


def main():
    hub = Hub(pathlib.Path(sys.argv[1]))
    tls = None
    if 2 < len(sys.argv):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*sys.argv[2:])
    for host in ["cdn", "hub", "files"]:
        handler = type(host, (Handler,), {"state": hub, "host": host})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        if host == "files" and tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        hub.servers[host] = server
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(hub.servers["hub"].server_port, hub.servers["files"].server_port, flush=True)
    # Until whoever has started it closes its input.
    sys.stdin.read()


main()
