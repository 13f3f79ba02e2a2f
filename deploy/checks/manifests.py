"""The files of this folder, read once, and what several checks want to know of them."""

import json
import re

import yaml


class Manifests:
    """All files, by their paths relative to `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.documents = {}
        for path in sorted(folder.rglob("*.y*ml")):
            name = str(path.relative_to(folder))
            self.documents[name] = [it for it in yaml.safe_load_all(path.read_text()) if it is not None]
        self.dashboard = json.loads((folder / "grafana/muster.json").read_text())
        self.compose = self.one("compose/compose.yaml")
        self.rules = self.one("prometheus/rules.yml")

    def one(self, name):
        """The only document of a file."""
        (document,) = self.documents[name]
        return document

    def objects(self):
        """Everything that has an apiVersion and a kind: pairs of file and object. Patches are not objects."""
        for name, documents in self.documents.items():
            for it in documents:
                is_object = isinstance(it, dict) and "apiVersion" in it and "kind" in it
                if is_object and it["kind"] not in ("Kustomization", "Component") and not name.endswith("/patch.yaml"):
                    yield name, it

    def kind(self, kind):
        """The objects of one kind, with their files."""
        return [(name, it) for name, it in self.objects() if it["kind"] == kind]

    def only(self, kind):
        """The only object of a kind."""
        ((_, it),) = self.kind(kind)
        return it

    def containers(self):
        """Whatever starts muster."""
        service = self.compose["services"]["muster"]
        yield Container("compose/compose.yaml", service["command"], service=service)
        for kind, of in (
            ("Deployment", lambda it: it["spec"]["template"]["spec"]["containers"]),
            ("ClusterServingRuntime", lambda it: it["spec"]["containers"]),
        ):
            for name, it in self.kind(kind):
                for container in of(it):
                    yield Container(name, container["args"], container=container)


class Container:
    """One way in which muster is started: of compose (`service`) or of Kubernetes (`container`)."""

    def __init__(self, file, args, service=None, container=None):
        self.file, self.args = file, args
        self.service, self.container = service, container

    def flag(self, name):
        """The value of `--name=value`, or nothing."""
        for it in self.args:
            if it.startswith(f"--{name}="):
                return it.split("=", 1)[1]
        return None

    def ports(self):
        """The ports that are said to be open: numbers."""
        if self.container:
            return [it["containerPort"] for it in self.container["ports"]]
        return [int(it.rsplit(":", 1)[1]) for it in self.service["ports"]]

    def environment(self):
        """Names of variables that are set."""
        if self.container:
            return [it["name"] for it in self.container.get("env", [])]
        return list(self.service.get("environment", {}))

    def probes(self):
        """Pairs of path and port number of the HTTP probes, by their names."""
        found = {}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = (self.container or {}).get(name)
            if probe:
                port = probe["httpGet"]["port"]
                names = {it.get("name"): it["containerPort"] for it in self.container["ports"]}
                found[name] = probe["httpGet"]["path"], names.get(port, port)
        return found


def bytes_of(text):
    """`1Gi`, `256MiB`, `1G` of compose (units of 1024), in bytes."""
    number, unit = re.fullmatch(r"(\d+)([KMG]?)(?:i?B?)", str(text)).groups()
    return int(number) * 1024 ** ("", "K", "M", "G").index(unit)


def seconds_of(text):
    """`30s` of compose, in seconds."""
    return int(re.fullmatch(r"(\d+)s", str(text)).group(1))
