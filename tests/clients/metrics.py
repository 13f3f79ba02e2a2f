"""Reads a metrics page with the Prometheus project's own parser and checks what the format cannot say.

Usage: metrics.py URL [NAME...]     NAME is a family that the page must have.
Exit code: 0 sound, 1 not sound, 77 not checked because `prometheus_client` is not installed.
"""

import math
import sys
import urllib.request

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError:
    print("NOT CHECKED: pip install prometheus_client", file=sys.stderr)
    sys.exit(77)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def check_histogram(family):
    """Buckets do not fall, and the last one holds as many as the count says."""
    series = {}
    for sample in family.samples:
        labels = frozenset((k, v) for k, v in sample.labels.items() if k != "le")
        found = series.setdefault(labels, {"buckets": []})
        if sample.name.endswith("_bucket"):
            found["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            found[sample.name.rpartition("_")[2]] = sample.value
    for labels, found in series.items():
        counts = [count for _, count in sorted(found["buckets"])]
        where = f"{family.name}{dict(labels)}"
        assert counts == sorted(counts), f"{where}: buckets fall: {counts}"
        bound, last = max(found["buckets"])
        assert math.isinf(bound), f"{where}: no +Inf bucket"
        assert last == found["count"], f"{where}: +Inf is {last}, count is {found['count']}"
        assert found["sum"] >= 0, f"{where}: sum is {found['sum']}"


def check(text, wanted):
    """Asserts that the page is sound and has the wanted families; returns the number of samples."""
    seen, names = set(), set()
    for family in text_string_to_metric_families(text):
        assert family.type in ("counter", "gauge", "histogram", "summary"), f"{family.name}: {family.type}"
        assert family.documentation, f"{family.name} has no help"
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in seen, f"given twice: {key}"
            assert sample.value >= 0, f"{key}: {sample.value}"
            seen.add(key)
            names.add(sample.name)
        # The parser takes `_total` off a counter's name.
        names.update((family.name, f"{family.name}_total"))
        if family.type == "histogram":
            check_histogram(family)
    missing = [name for name in wanted if name not in names]
    assert not missing, f"missing: {missing}"
    assert seen, "the page is empty"
    return len(seen)


def main():
    url, *wanted = sys.argv[1:]
    with urllib.request.urlopen(url, timeout=10) as response:
        content_type = response.headers["Content-Type"]
        text = response.read().decode("utf-8")
    assert content_type == CONTENT_TYPE, f"content type {content_type!r}"
    print(f"{check(text, wanted)} samples are sound")


if __name__ == "__main__":
    main()
