// Reads a list of objects as JSON from standard input, and writes a list of what is wrong with each: null, or a text.
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { PodMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";

const kinds = { PodMonitor, PrometheusRule, ScaledObject, ServiceMonitor };

let text = "";
for await (const piece of process.stdin) text += piece;

const problems = JSON.parse(text).map((object) => {
  try {
    new kinds[object.kind](object).validate();
    return null;
  } catch (error) {
    return error.message;
  }
});
console.log(JSON.stringify(problems));
