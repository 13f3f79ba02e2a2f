"""The files of this folder, read once, and what several checks want to know of them."""

import json
import re

import yaml


# Templates of the chart, and the file that is made of kustomizations: each is checked by itself.
ELSEWHERE = ("helm/templates/", "helm/values.yaml", "kubernetes/muster.yaml")


class Manifests:
    """All files, by their paths relative to `folder`."""

    def __init__(self, folder):
        self.folder = folder
        self.documents = {}
        for path in sorted(folder.rglob("*.y*ml")):
            name = str(path.relative_to(folder))
            if name.startswith(ELSEWHERE):
                continue
            self.documents[name] = [it for it in yaml.safe_load_all(path.read_text()) if it is not None]
        self.dashboard = json.loads((folder / "grafana/muster.json").read_text())
        self.compose = self.one("compose/compose.yaml")
        self.rules = self.one("prometheus/rules.yml")
        self.unit = Unit("systemd/muster.service", (folder / "systemd/muster.service").read_text())

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
        yield self.unit


class Container:
    """One way in which muster is started: of compose (`service`), of Kubernetes (`container`), or a unit of systemd."""

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


class Unit(Container):
    """The unit of systemd. Lines that end in a backslash are one line with the next."""

    def __init__(self, file, text):
        self.text = text
        self.settings = {}
        for line in re.sub(r"\\\n\s*", "", text).splitlines():
            if "=" in line and not line.startswith(("#", ";")):
                key, value = line.split("=", 1)
                self.settings.setdefault(key, []).append(value)
        (start,) = self.settings["ExecStart"]
        self.program, *args = start.split()
        super().__init__(file, args)

    def value(self, key):
        """The only value of a setting, or nothing."""
        values = self.settings.get(key)
        return values[0] if values and len(values) == 1 else None

    def ports(self):
        """Those of the command line: a unit says no others."""
        return [int(it[1]) for it in (re.fullmatch(r"--[\w-]+-port=(\d+)", it) for it in self.args) if it]

    def environment(self):
        """Names of variables that are set."""
        return [it.split("=")[0] for it in self.settings.get("Environment", [])]

    def probes(self):
        """systemd asks nothing. This is for whoever waits for the server."""
        return {"readinessProbe": ("/v2/health/ready", int(self.flag("http-port")))}


def bytes_of(text):
    """`1Gi`, `256MiB`, `1G` of compose (units of 1024), in bytes."""
    number, unit = re.fullmatch(r"(\d+)([KMG]?)(?:i?B?)", str(text)).groups()
    return int(number) * 1024 ** ("", "K", "M", "G").index(unit)


def seconds_of(text):
    """`30s` of compose, in seconds."""
    return int(re.fullmatch(r"(\d+)s", str(text)).group(1))
