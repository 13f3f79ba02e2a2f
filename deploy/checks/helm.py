"""The chart: by Helm's own linter, and rendered. What it makes is what the kustomizations make."""

import copy
import json
import subprocess

import yaml

from . import schemas

# Labels that Helm's users expect, and that tell releases apart.
OF_HELM = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
SOURCE = "sentence-transformers/all-MiniLM-L6-v2"
IMAGE = "muster-models"
# Values, and the components of kubernetes/ that make the same.
CASES = (
    ({}, ()),
    ({"models": {"claim": "", "image": IMAGE}}, ("models-from-image",)),
    ({"models": {"claim": "", "source": SOURCE}}, ("models-by-name",)),
    ({"autoscaling": {"enabled": True}}, ("hpa",)),
)
# Values that are refused, and a part of what is said.
WRONG = (
    ({"replicas": -1}, "replicas"),
    ({"replica": 1}, "replica"),
    ({"models": {"source": SOURCE}}, "set one of claim, image and source"),
    ({"models": {"claim": ""}}, "set one of claim, image and source"),
    ({"args": ["serve"]}, "args"),
)
# All that the defaults leave out.
EVERYTHING = {
    "imagePullSecrets": [{"name": "registry"}],
    "args": ["--log-verbose=1"],
    "env": [{"name": "MUSTER_LOG_FORMAT", "value": "json"}],
    "envFromSecrets": ["tokens"],
    "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}


def check(manifests, report, work):
    """The chart in `helm`."""
    try:
        import helm_python
    except ImportError as error:
        report.skipped("helm/", f"there is no helm-python-sdk for this machine: {error}", required=False)
        return
    before = report.count()
    chart = manifests.folder / "helm"
    found = helm_python.lint(chart, strict=True, kube_version="v1.31.0")
    # An icon is all that lint misses, as information.
    for it in [it for it in found["messages"] if it["severity"] > 1]:
        report.problem("helm/", f"{it['path']}: {it['error']}")
    with helm_python.Chart.load(chart) as loaded:
        everything = objects(loaded, EVERYTHING)
        for made in everything:
            if made["kind"] not in schemas.OF_NPM:
                schemas.kubernetes(made, f"helm/ rendered ({made['kind']})", report)
        monitors = [("helm/ rendered", it) for it in everything if it["kind"] == "PodMonitor"]
        if not monitors:
            report.problem("helm/", "podMonitor.enabled makes no PodMonitor")
        schemas.operators(monitors, report, work)
        for values, part in WRONG:
            try:
                objects(loaded, values)
                report.problem("helm/", f"takes {values}")
            except helm_python.HelmError as error:
                if part not in str(error):
                    report.problem("helm/", f"{values}: {error}")
        builder = schemas.builder()
        for values, components in CASES if builder else ():
            overlay = schemas.overlay(manifests, work, components)
            done = subprocess.run([*builder, str(overlay)], capture_output=True, text=True, check=True)
            wanted = [it for it in yaml.safe_load_all(done.stdout) if it]
            compare(objects(loaded, values), wanted, f"helm/ with {json.dumps(values)}", report)
    if report.count() == before:
        report.ok("helm/: lint, wrong values, and objects that are those of kubernetes/")


def objects(chart, values):
    """What the chart makes of these values, released as `muster`."""
    rendered = chart.render(values, name="muster", namespace="models")
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    return [it for text in texts for it in yaml.safe_load_all(text) if it]


def compare(given, wanted, where, report):
    """The same objects, but for what a chart says otherwise."""
    given, wanted = ({it["kind"]: usual(it) for it in all} for all in (given, wanted))
    # The chart writes the source where it is used.
    wanted.pop("ConfigMap", None)
    if sorted(given) != sorted(wanted):
        report.problem(where, f"makes {sorted(given)}, and kubernetes/ {sorted(wanted)}")
        return
    for kind in given:
        for path in differences(given[kind], wanted[kind], kind):
            report.problem(where, path)


def usual(it):
    """An object without what only a chart has, or only a kustomization."""
    it = copy.deepcopy(it)
    for labels in labels_of(it):
        for name in OF_HELM:
            labels.pop(name, None)
    if it["kind"] == "HorizontalPodAutoscaler":
        it["metadata"].pop("labels", None)
    if it["kind"] != "Deployment":
        return it
    pod = it["spec"]["template"]["spec"]
    for container in pod["containers"] + pod.get("initContainers", []):
        container["image"] = container["image"].split(":")[0]
        container.pop("imagePullPolicy", None)
        container.pop("env", None)
        container["args"] = ["$(MODEL)" if it == SOURCE else it for it in container.get("args", [])]
        for mount in container["volumeMounts"]:
            mount.setdefault("readOnly", False)
    return it


def labels_of(value):
    """All maps of labels in an object, at any depth."""
    if isinstance(value, list):
        for it in value:
            yield from labels_of(it)
    elif isinstance(value, dict):
        for key, it in value.items():
            if key in ("labels", "matchLabels") or (key == "selector" and "matchLabels" not in it):
                yield it
            else:
                yield from labels_of(it)


def differences(given, wanted, path):
    """Where two values differ: sentences."""
    if isinstance(given, dict) and isinstance(wanted, dict):
        for key in sorted(given.keys() | wanted.keys()):
            yield from differences(given.get(key), wanted.get(key), f"{path}.{key}")
    elif isinstance(given, list) and isinstance(wanted, list) and len(given) == len(wanted):
        for at, (one, other) in enumerate(zip(given, wanted, strict=True)):
            yield from differences(one, other, f"{path}[{at}]")
    elif given != wanted:
        yield f"{path} is {json.dumps(given)}, in kubernetes/ {json.dumps(wanted)}"
