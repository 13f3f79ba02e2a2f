"""What promtool says of the configuration, the rules and their unit tests."""

import shutil
import subprocess


def check(manifests, report):
    """Configuration, rules, unit tests; and that the rules as an object are the same ones."""
    (rule,) = [it for _, it in manifests.kind("PrometheusRule")]
    where = "kubernetes/components/monitor/prometheus-rule.yaml"
    if rule["spec"]["groups"] == manifests.rules["groups"]:
        report.ok(f"{where}: the groups of prometheus/rules.yml")
    else:
        report.problem(where, "its groups differ from those of prometheus/rules.yml")
    tested = {
        it["alertname"]
        for group in manifests.one("prometheus/rules_test.yml")["tests"]
        for it in group["alert_rule_test"]
        if it.get("exp_alerts")
    }
    for group in manifests.rules["groups"]:
        for it in group["rules"]:
            if it["alert"] not in tested:
                report.problem("prometheus/rules_test.yml", f"no test in which {it['alert']} fires")

    if not shutil.which("promtool"):
        report.skipped("prometheus/: configuration, rules, unit tests", "there is no promtool (Debian: prometheus)")
        return
    for arguments in (
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "--lint=all", "--lint-fatal", "rules.yml"],
        ["test", "rules", "rules_test.yml"],
    ):
        done = subprocess.run(
            ["promtool", *arguments], cwd=manifests.folder / "prometheus", capture_output=True, text=True
        )
        if done.returncode == 0:
            report.ok(f"prometheus/: promtool {' '.join(arguments)}")
        else:
            report.problem(f"prometheus/: promtool {' '.join(arguments)}", (done.stdout + done.stderr).strip())
