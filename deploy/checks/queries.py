"""Every PromQL expression in this folder, with where it stands."""

import re

# Labels that a scrape adds. The last four are those of the Prometheus operator, which prometheus-adapter needs.
OF_THE_SCRAPE = {"job", "instance", "namespace", "pod", "service", "container"}
# Series of others: Prometheus itself, and kube-state-metrics.
OF_OTHERS = {
    "": OF_THE_SCRAPE,
    "up": {},
    "kube_pod_container_status_ready": {"uid": set()},
    "kube_pod_container_status_restarts_total": {"uid": set()},
}


class Query:
    """An expression as it stands, and `shown`: whether it must have a value whenever there is load."""

    def __init__(self, where, expression, shown):
        self.where, self.expression, self.shown = where, expression, shown

    def filled(self, window):
        """Without what Grafana fills in: all of each variable, and `window` as the interval of rates."""
        text = self.expression.replace("$__rate_interval", window)
        return re.sub(r'"\$\w+"', '".*"', text)


def queries(manifests):
    """All of them."""
    yield from of_dashboard(manifests.dashboard)
    for group in manifests.rules["groups"]:
        for it in group["rules"]:
            yield Query(f"prometheus/rules.yml: {it['alert']}", it["expr"], shown=False)
    yield from of_adapter(manifests.one("kubernetes/prometheus-adapter.yaml"))
    for name, it in manifests.kind("ScaledObject"):
        for trigger in it["spec"]["triggers"]:
            yield Query(f"{name}: {trigger['name']}", trigger["metadata"]["query"], shown=True)


def of_dashboard(board):
    """Panels, annotations, and the series that variables take their values from."""
    for panel in board["panels"]:
        for it in panel.get("targets", []):
            yield Query(f"grafana/muster.json: '{panel['title']}' {it['refId']}", it["expr"], shown=True)
    for it in board["annotations"]["list"]:
        if "expr" in it:
            yield Query(f"grafana/muster.json: annotation '{it['name']}'", it["expr"], shown=False)
    for it in board["templating"]["list"]:
        if it["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", it["query"]["query"]).groups()
            expression = f"count by ({label}) ({series})"
            yield Query(f"grafana/muster.json: variable ${it['name']}", expression, shown=True)


def of_adapter(values):
    """The rules of prometheus-adapter, filled in as it does for one pod, and the series by which it finds pods."""
    for rule in values["rules"]["custom"]:
        where = f"kubernetes/prometheus-adapter.yaml: {rule['name']['as']}"
        (series,) = re.findall(r"^\w+", rule["seriesQuery"])
        text = rule["metricsQuery"].replace("<<.Series>>", series).replace("<<.GroupBy>>", "pod")
        yield Query(where, text.replace("<<.LabelMatchers>>", 'namespace=~".+",pod=~".+"'), shown=True)
        yield Query(f"{where}, series", rule["seriesQuery"], shown=True)
