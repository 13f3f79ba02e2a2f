"""The dashboard, by the models of Grafana's SDK, and by what goes wrong most when somebody edits it."""

import itertools
import json
import re

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

# Fields of annotations that are the data source's own.
UNKNOWN_TO_THE_SDK = ("titleFormat", "textFormat")


def check(board, report):
    """All fields, then what they say about each other."""
    where, before = "grafana/muster.json", report.count()
    panels = board["panels"]
    for it in unknown_fields(board):
        report.problem(where, f"{it} is nothing that Grafana knows there")
    ids = [it["id"] for it in panels]
    for it in sorted({it for it in ids if ids.count(it) > 1}):
        report.problem(where, f"{ids.count(it)} panels have the id {it}")
    variables = {it["name"] for it in board["templating"]["list"]}
    for it in sorted(set(re.findall(r"\$\{?(\w+)", json.dumps(board))) - variables - {"__rate_interval", "__all"}):
        report.problem(where, f"there is no variable ${it}")
    for panel in panels:
        name = f"{where}: panel '{panel['title']}'"
        if set(panel["gridPos"]) != set("xywh") or panel["gridPos"]["x"] + panel["gridPos"]["w"] > 24:
            report.problem(name, f"gridPos {panel['gridPos']} does not lie within 24 columns")
        if panel["type"] == "row":
            continue
        if not panel.get("targets"):
            report.problem(name, "no targets")
        references = [it["refId"] for it in panel.get("targets", [])]
        if len(set(references)) != len(references):
            report.problem(name, f"refIds {references} are not unique")
    for it in found("datasource", board):
        if it not in ({"type": "prometheus", "uid": "${datasource}"}, {"type": "grafana", "uid": "-- Grafana --"}):
            report.problem(where, f"the data source {it} is not the variable ${{datasource}}")
    places = {it["id"]: it["gridPos"] for it in panels}
    for first, second in itertools.combinations(places, 2):
        if overlap(places[first], places[second]):
            report.problem(where, f"the panels {first} and {second} overlap")
    if report.count() == before:
        report.ok(f"{where}: {len(panels)} panels and rows, the models of Grafana's SDK, and by structure")


def unknown_fields(board):
    """What is lost when Grafana's SDK reads the dashboard and writes it again: paths of fields that it does not know."""
    plugins.register_default_plugins()
    written = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(board)))
    yield from (path for path in lost(board, written, "dashboard") if path.rsplit(".", 1)[1] not in UNKNOWN_TO_THE_SDK)


def lost(given, kept, path):
    """Paths in `given` that `kept` has not, or has with another value."""
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, it in given.items():
            yield from lost(it, kept[key], f"{path}.{key}") if key in kept else [f"{path}.{key}"]
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for index, it in enumerate(given):
            yield from lost(it, kept[index], f"{path}[{index}]")
    elif given != kept:
        yield path


def overlap(first, second):
    """Whether two places of the grid share a cell."""
    return all(
        first[start] < second[start] + second[size] and second[start] < first[start] + first[size]
        for start, size in (("x", "w"), ("y", "h"))
    )


def found(key, value):
    """All values under this key, at any depth."""
    for name, it in value.items() if isinstance(value, dict) else enumerate(value):
        if name == key:
            yield it
        elif isinstance(it, (dict, list)):
            yield from found(key, it)
