"""Each file against its published schema, as far as a package registry has one."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

from . import grafana, kserve
from .packages import KUBERNETES, package

# Kinds whose schemas are in packages of npm.
OF_NPM = ("PodMonitor", "PrometheusRule", "ScaledObject", "ServiceMonitor")
# Kinds of KServe, and the classes of its client that describe them.
OF_KSERVE = {"ClusterServingRuntime": "V1alpha1ClusterServingRuntime", "InferenceService": "V1beta1InferenceService"}


def check(manifests, report, work):
    """All files that have a schema."""
    compose(manifests, report)
    grafana.check(manifests.dashboard, report)
    for name, it in list(manifests.objects()):
        where = f"{name} ({it['kind']})"
        if it["kind"] in OF_KSERVE:
            before = report.count()
            kserve.model(OF_KSERVE[it["kind"]], it, where, report)
            if report.count() == before:
                report.ok(f"{where}: the models of KServe's client")
        elif it["kind"] not in OF_NPM:
            kubernetes(it, where, report)
    objects = [(name, it) for name, it in manifests.objects() if it["kind"] in OF_NPM]
    operators(objects, report, work)
    kustomize(manifests, report, work)


def compose(manifests, report):
    """The files of Compose and of the swarm, as specified; the schema comes with check-jsonschema."""
    schema = json.loads((package("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    for name in ("compose/compose.yaml", "swarm/stack.yaml"):
        problems = list(jsonschema.validators.validator_for(schema)(schema).iter_errors(manifests.one(name)))
        for it in problems:
            report.problem(name, f"{it.json_path}: {it.message}")
        if not problems:
            report.ok(f"{name}: the Compose specification")


def kubernetes(it, where, report):
    """An object of Kubernetes itself, strictly: unknown fields are errors."""
    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(it, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(map(str, error.path))
            report.problem(where, f"Kubernetes {version}: {path}: {error.message}")
            return
        except kubernetes_validate.SchemaNotFoundError:
            report.problem(where, f"nothing knows the kind {it['apiVersion']} {it['kind']}")
            return
    report.ok(f"{where}: Kubernetes {' and '.join(KUBERNETES)}")


def operators(objects, report, work):
    """Objects of the Prometheus operator and of KEDA, with their files: their schemas are in packages of npm."""
    what = ", ".join(f"{name} ({it['kind']})" for name, it in objects)
    if not (shutil.which("node") and shutil.which("npm")):
        report.skipped(what, "their schemas are in packages of npm, and there is no node and npm", required=False)
        return
    source, folder = Path(__file__).parent / "npm", work / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    for it in source.iterdir():
        shutil.copy(it, folder)
    # By the lock file, in which each package has its digest; nothing of theirs is run but the validators.
    install = ["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
    if subprocess.run(install, cwd=folder, stdout=subprocess.DEVNULL).returncode != 0:
        report.skipped(what, "npm could not install their schemas", required=False)
        return
    known = known_fields(folder / "node_modules")
    text = json.dumps([it for _, it in objects])
    done = subprocess.run(["node", "validate.mjs"], cwd=folder, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        report.problem("checks/npm/validate.mjs", done.stderr.strip())
        return
    for (name, it), problem in zip(objects, json.loads(done.stdout), strict=True):
        where = f"{name} ({it['kind']})"
        # The schemas let unknown fields pass, as an API server does, which then drops them.
        unknown = sorted(fields(it["spec"]) - known)
        if problem or unknown:
            report.problem(where, problem or f"no kind has the fields {', '.join(unknown)}")
        else:
            report.ok(f"{where}: the schema of its operator")


def known_fields(folder):
    """Every field that the validators look at, of any kind: their code has it as `data.name`."""
    packages = ("@kubernetes-models/keda", "@kubernetes-models/prometheus-operator", "@kubernetes-models/apimachinery")
    paths = [path for it in packages for path in (folder / it / "_schemas").glob("*.js")]
    # KEDA hands a part of its object on to the autoscaler of Kubernetes.
    paths += (folder / "kubernetes-models/_schemas").glob("IoK8sApiAutoscalingV2*.js")
    return {name for it in paths for name in re.findall(r"\bdata\w*\.(\w+)", it.read_text())}


def fields(value):
    """All keys of an object, at any depth, but for those of maps whose keys are anybody's."""
    if isinstance(value, list):
        return set().union(*map(fields, value))
    if not isinstance(value, dict):
        return set()
    free = ("metadata", "labels", "annotations", "matchLabels")
    return set(value).union(*(fields(it) for key, it in value.items() if key not in free))


def kustomize(manifests, report, work):
    """Each kustomization names what is there; and, where there is a program for it, builds to valid objects."""
    for name, documents in manifests.documents.items():
        if not name.endswith("kustomization.yaml"):
            continue
        (it,) = documents
        folder = (manifests.folder / name).parent
        named = it.get("resources", []) + it.get("components", [])
        named += [patch["path"] for patch in it.get("patches", []) if "path" in patch]
        for missing in [path for path in named if not (folder / path).exists()]:
            report.problem(name, f"there is no {missing}")
        listed = {"kustomization.yaml", *named}
        for extra in sorted({path.name for path in folder.glob("*.yaml")} - listed):
            report.problem(name, f"{extra} lies beside it and is not in it")
    program = builder()
    if not program:
        report.skipped("kubernetes/: building", "there is no kustomize and no kubectl", required=False)
        return
    for name, made in built(manifests, program, report, work):
        for it in made:
            if it["kind"] not in OF_NPM:
                kubernetes(it, f"{name} built ({it['kind']})", report)


def builder():
    """What builds kustomizations, or nothing."""
    programs = (["kustomize", "build"], ["kubectl", "kustomize"])
    return next((it for it in programs if shutil.which(it[0])), None)


def built(manifests, program, report, work):
    """The kustomizations, and each component on the base by itself: pairs of name and objects."""
    folder = manifests.folder / "kubernetes"
    for name in ("base", "example", "plain"):
        yield from one_built(folder / name, f"kubernetes/{name}", program, report)
    for component in sorted((folder / "components").iterdir()):
        made = overlay(manifests, work, [component.name])
        yield from one_built(made, f"kubernetes/components/{component.name}", program, report)
    done = subprocess.run([manifests.folder / "plain.py", "--check"], capture_output=True, text=True)
    if done.returncode != 0:
        report.problem("kubernetes/muster.yaml", done.stderr.strip())
    else:
        report.ok("kubernetes/muster.yaml is what kubernetes/plain makes")


def overlay(manifests, work, components):
    """A kustomization of the base with these components."""
    folder, made = manifests.folder / "kubernetes", work / "overlay"
    made.mkdir(parents=True, exist_ok=True)
    text = {
        "resources": [os.path.relpath(folder / "base", made)],
        "components": [os.path.relpath(folder / "components" / it, made) for it in components],
    }
    (made / "kustomization.yaml").write_text(yaml.safe_dump(text))
    return made


def one_built(folder, name, program, report):
    """What a folder builds to, unless it does not."""
    done = subprocess.run([*program, str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        report.problem(name, done.stderr.strip())
        return
    yield name, [it for it in yaml.safe_load_all(done.stdout) if it]
