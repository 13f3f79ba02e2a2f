"""What must be the same in several files, and what muster itself knows: its flags and its defaults."""

import re
import subprocess
import tomllib

import yaml

from .manifests import bytes_of, seconds_of

# Seconds that a platform should wait longer than muster needs at most.
SPARE = 3
# What a container must have: the restricted profile of Pod Security Standards, and a root that is read-only.
RESTRICTED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def check(manifests, report, muster):
    """Everything that needs no server to run."""
    before = report.count()
    versions(manifests, report)
    selectors(manifests, report)
    jobs(manifests, report)
    autoscaling(manifests, report)
    hardening(manifests, report)
    sizes(manifests, report)
    if report.count() == before:
        report.ok("labels, jobs, metrics of autoscalers, security settings and sizes agree")
    if not muster.is_file():
        report.skipped("flags, commands and grace periods", f"there is no {muster}; cargo build --release makes it")
        return
    before = report.count()
    flags(manifests, report, Help(muster))
    if report.count() == before:
        report.ok("flags, variables, commands and grace periods are those of muster --help")


def versions(manifests, report):
    """The chart is of the version that is built."""
    cargo = tomllib.loads((manifests.folder.parent / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = manifests.one("helm/Chart.yaml")
    if not chart["version"] == chart["appVersion"] == cargo:
        report.problem("helm/Chart.yaml", f"is of {chart['version']} and {chart['appVersion']}, Cargo.toml of {cargo}")


def selectors(manifests, report):
    """Whatever selects pods selects those of the Deployment; ports that are named exist."""
    deployment = manifests.only("Deployment")
    template = deployment["spec"]["template"]
    pod, labels = template["spec"], template["metadata"]["labels"]
    ports = {it["name"]: it["containerPort"] for it in pod["containers"][0]["ports"]}
    service = manifests.only("Service")

    chosen = [("Deployment", deployment["spec"]["selector"]["matchLabels"]), ("Service", service["spec"]["selector"])]
    chosen += [("PodDisruptionBudget", manifests.only("PodDisruptionBudget")["spec"]["selector"]["matchLabels"])]
    policy = manifests.only("NetworkPolicy")["spec"]
    chosen += [("NetworkPolicy", policy["podSelector"]["matchLabels"])]
    chosen += [("topology", it["labelSelector"]["matchLabels"]) for it in pod["topologySpreadConstraints"]]
    for name, wanted in chosen:
        if not wanted.items() <= labels.items():
            report.problem(f"kubernetes: {name}", f"selects {wanted}, and pods have {labels}")
    monitor = manifests.only("ServiceMonitor")["spec"]
    if not monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items():
        report.problem("kubernetes: ServiceMonitor", "does not select the Service")

    for it in service["spec"]["ports"]:
        if ports.get(it["targetPort"]) != it["port"]:
            report.problem("kubernetes: Service", f"port {it['port']} goes to {it['targetPort']} of {ports}")
    offered = {it["name"] for it in service["spec"]["ports"]}
    for it in monitor["endpoints"]:
        if it["port"] not in offered:
            report.problem("kubernetes: ServiceMonitor", f"the Service has no port {it['port']}")
    for rule in policy["ingress"]:
        for it in rule["ports"]:
            if it["port"] not in ports:
                report.problem("kubernetes: NetworkPolicy", f"pods have no port {it['port']}")


def jobs(manifests, report):
    """The job under which rules look is the one that both ways to scrape give; data sources are there."""
    wanted = set()
    for group in manifests.rules["groups"]:
        for it in group["rules"]:
            wanted |= set(re.findall(r'job="(\w+)"', it["expr"]))
    configured = {it["job_name"]: it for it in manifests.one("prometheus/prometheus.yml")["scrape_configs"]}
    label = manifests.only("ServiceMonitor")["spec"]["jobLabel"]
    of_service = manifests.only("Service")["metadata"]["labels"].get(label)
    for it in sorted(wanted):
        if it not in configured:
            report.problem("prometheus/prometheus.yml", f"rules ask for job {it}, scraped are {', '.join(configured)}")
        if it != of_service:
            report.problem("kubernetes: ServiceMonitor", f"makes job {of_service}, rules ask for {it}")
    (scraped,) = configured["muster"]["dns_sd_configs"]
    services, muster = manifests.compose["services"], next(manifests.containers())
    if scraped["names"] != ["muster"] or scraped["port"] not in muster.ports():
        report.problem("prometheus/prometheus.yml", f"scrapes {scraped}, which compose.yaml does not have")
    (source,) = manifests.one("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    (variable,) = [it for it in manifests.dashboard["templating"]["list"] if it["type"] == "datasource"]
    if variable["current"]["value"] != source["uid"] or variable["query"] != source["type"]:
        report.problem("grafana/muster.json", f"the data source {variable['current']} is not the provisioned {source}")
    interval = manifests.one("prometheus/prometheus.yml")["global"]["scrape_interval"]
    if source["jsonData"]["timeInterval"] != interval:
        report.problem("grafana/provisioning/datasources", f"timeInterval is not the scrape interval, {interval}")
    mounted = [it.split(":")[:2] for it in services["grafana"]["volumes"] + services["prometheus"]["volumes"]]
    for path, _ in mounted:
        if path.startswith(".") and not (manifests.folder / "compose" / path).exists():
            report.problem("compose/compose.yaml", f"there is no {path}")
    (provider,) = manifests.one("grafana/provisioning/dashboards/muster.yaml")["providers"]
    if not any(target.startswith(provider["options"]["path"] + "/") for _, target in mounted):
        report.problem("grafana/provisioning/dashboards", f"nothing is mounted in {provider['options']['path']}")


def autoscaling(manifests, report):
    """Both autoscalers ask for the same, of the Deployment, with the same numbers; and it is offered."""
    name = manifests.only("Deployment")["metadata"]["name"]
    hpa, keda = manifests.only("HorizontalPodAutoscaler")["spec"], manifests.only("ScaledObject")["spec"]
    for it in (hpa["scaleTargetRef"], keda["scaleTargetRef"]):
        if it != {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}:
            report.problem("kubernetes: autoscalers", f"{it} is not the Deployment")
    offered = {it["name"]["as"] for it in manifests.one("kubernetes/prometheus-adapter.yaml")["rules"]["custom"]}
    asked = {it["pods"]["metric"]["name"]: it["pods"]["target"]["averageValue"] for it in hpa["metrics"]}
    if set(asked) != offered:
        report.problem("kubernetes: HorizontalPodAutoscaler", f"asks for {sorted(asked)}; there are {sorted(offered)}")
    thresholds = {f"muster_{it['name'].replace('-', '_')}": it["metadata"]["threshold"] for it in keda["triggers"]}
    if thresholds != asked:
        report.problem("kubernetes: ScaledObject", f"has {thresholds}, the HorizontalPodAutoscaler {asked}")
    if keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] != hpa["behavior"]:
        report.problem("kubernetes: ScaledObject", "behaves differently from the HorizontalPodAutoscaler")
    if (keda["minReplicaCount"], keda["maxReplicaCount"]) != (hpa["minReplicas"], hpa["maxReplicas"]):
        report.problem("kubernetes: ScaledObject", "has other limits than the HorizontalPodAutoscaler")


def hardening(manifests, report):
    """Nobody is root, may become it, or writes to the image."""
    for it in manifests.containers():
        if it.container:
            given = it.container["securityContext"]
            for key, wanted in RESTRICTED.items():
                if given.get(key) != wanted:
                    report.problem(it.file, f"securityContext.{key} is {given.get(key)}, expected {wanted}")
    pod = manifests.only("Deployment")["spec"]["template"]["spec"]
    runtime = manifests.only("ClusterServingRuntime")["spec"]["containers"][0]["securityContext"]
    for where, given in (("Deployment", pod["securityContext"]), ("ClusterServingRuntime", runtime)):
        if not given.get("runAsNonRoot") or given.get("seccompProfile") != {"type": "RuntimeDefault"}:
            report.problem(where, "expected runAsNonRoot and the seccomp profile RuntimeDefault")
    for mount in pod["containers"][0]["volumeMounts"]:
        if not mount.get("readOnly"):
            report.problem("kubernetes: Deployment", f"{mount['mountPath']} can be written to")
    for name, it in manifests.compose["services"].items():
        where = f"compose/compose.yaml: {name}"
        if not it.get("read_only") or it.get("cap_drop") != ["ALL"]:
            report.problem(where, "expected read_only and cap_drop: [ALL]")
        if "no-new-privileges:true" not in it.get("security_opt", []):
            report.problem(where, "expected no-new-privileges")
        for port in it["ports"]:
            if not port.startswith("127.0.0.1:"):
                report.problem(where, f"port {port} is open to others")
        if "build" not in it and not re.search(r":v?\d+\.\d+\.\d+$", it["image"]):
            report.problem(where, f"the version of {it['image']} is not pinned")


def sizes(manifests, report):
    """The two sizes in the rules are those of the containers: a quarter of the limit, and the limit."""
    expressions = {it["alert"]: it["expr"] for group in manifests.rules["groups"] for it in group["rules"]}
    number = {name: int(re.search(r"\* (\d+)$", text)[1]) for name, text in expressions.items() if "* " in text}
    limits = {"compose": manifests.compose["services"]["muster"]["deploy"]["resources"]["limits"]["memory"]}
    limits[manifests.unit.file] = manifests.unit.value("MemoryMax")
    for it in manifests.containers():
        if it.container:
            resources = it.container["resources"]
            limits[it.file] = resources["limits"]["memory"]
            if resources["requests"] != resources["limits"] or not resources["limits"]["cpu"].isdecimal():
                report.problem(it.file, f"expected whole processors, and requests equal to limits, given {resources}")
    for where, text in limits.items():
        if number["MusterMemoryNearLimit"] != bytes_of(text):
            report.problem(where, f"memory limit {text}; prometheus/rules.yml has {number['MusterMemoryNearLimit']}")
        if number["MusterBodiesNearBudget"] != bytes_of(text) // 4:
            report.problem("prometheus/rules.yml", f"MusterBodiesNearBudget is not a quarter of {text} in {where}")


def flags(manifests, report, known):
    """Flags, variables and commands exist; platforms wait longer than muster needs; ports are the ones it opens."""
    for it in manifests.containers():
        for given in it.args:
            name = re.match(r"--([\w-]+)", given)
            if name and name[1] not in known.defaults:
                report.problem(it.file, f"muster has no flag {given}")
        if not it.args[0].startswith("-") and it.args[0] not in known.commands:
            report.problem(it.file, f"muster has no command {it.args[0]}")
        for name in it.environment():
            if name.startswith("MUSTER_") and name[7:].lower().replace("_", "-") not in known.defaults:
                report.problem(it.file, f"muster has no variable {name}")
        opened = [int(it.flag("http-port") or known.defaults["http-port"])]
        if it.flag("allow-grpc") != "false":
            opened.append(int(it.flag("grpc-port") or known.defaults["grpc-port"]))
        if it.flag("allow-metrics") != "false":
            opened.append(int(it.flag("metrics-port") or known.defaults["metrics-port"]))
        if it.flag("allow-sagemaker") != "false":
            opened.append(int(it.flag("sagemaker-port") or known.defaults["sagemaker-port"]))
        if sorted(it.ports()) != sorted(opened):
            report.problem(it.file, f"says that the ports {it.ports()} are open; muster opens {opened}")
        for name, (_, port) in it.probes().items():
            if port not in it.ports():
                report.problem(it.file, f"{name} asks port {port}, which is not open")

    for it in yaml.safe_load_all((manifests.folder / "kubernetes/muster.yaml").read_text()):
        containers = it["spec"]["template"]["spec"]["containers"] if it["kind"] == "Deployment" else []
        for given in [given for container in containers for given in container["args"]]:
            name = re.match(r"--([\w-]+)", given)
            if name and name[1] not in known.defaults:
                report.problem("kubernetes/muster.yaml", f"muster has no flag {given}")

    swarm = manifests.one("swarm/stack.yaml")["services"]["muster"]
    for given in swarm["command"]:
        name = re.match(r"--([\w-]+)", given)
        if name and name[1] not in known.defaults:
            report.problem("swarm/stack.yaml", f"muster has no flag {given}")

    waits = {"compose/compose.yaml": seconds_of(manifests.compose["services"]["muster"]["stop_grace_period"])}
    pod = manifests.only("Deployment")["spec"]["template"]["spec"]
    waits["kubernetes/base/deployment.yaml"] = pod["terminationGracePeriodSeconds"]
    waits[manifests.unit.file] = seconds_of(manifests.unit.value("TimeoutStopSec"))
    # KServe leaves it to Kubernetes, where it is 30.
    waits["kserve/cluster-serving-runtime.yaml"] = 30
    for it in manifests.containers():
        needed = int(it.flag("exit-timeout-secs") or known.defaults["exit-timeout-secs"])
        drain = int(it.flag("drain-delay-secs") or known.defaults["drain-delay-secs"])
        if waits[it.file] < needed + SPARE:
            report.problem(it.file, f"waits {waits[it.file]} s, and muster may take {needed} s to stop")
        if drain * 2 > needed:
            report.problem(it.file, f"a drain of {drain} s leaves little of {needed} s for what is running")
    _, program, command, *_ = manifests.compose["services"]["muster"]["healthcheck"]["test"]
    if program != "/muster" or command not in known.commands:
        report.problem("compose/compose.yaml: healthcheck", f"muster has no command {command}")


class Help:
    """What `muster --help-all` says: flags with their defaults, and commands."""

    def __init__(self, muster):
        text = subprocess.run([muster, "--help-all"], capture_output=True, text=True, check=True).stdout
        commands, _, options = text.partition("Options:")
        self.commands = re.findall(r"^  (\w+)  ", commands, re.MULTILINE)
        # From one flag to the next; the default stands in brackets at the end.
        parts = re.split(r"^ +(?:-\w, )?--([\w-]+)", options, flags=re.MULTILINE)[1:]
        self.defaults = {}
        for name, said in zip(parts[::2], parts[1::2], strict=True):
            default = re.search(r"\[([^\]\s]+)\]\s*$", said.split("\n\n")[0])
            self.defaults[name] = default[1] if default else None
