//! What a hosting platform's container is told: settings.

use super::{Setting, value};

const SECTION: &str = "Hosting";

#[rustfmt::skip]
pub(super) const SETTINGS: &[Setting] = &[
    value(SECTION, "sagemaker-ping-mode", "ready", "/ping is answered with 200 when the default model is ready, or, in the mode live, as soon as the port is open"),
    value(SECTION, "sagemaker-echo-custom-attributes", "true", "Give X-Amzn-SageMaker-Custom-Attributes back with the reply; the platform hands on only what the container gives back"),
    value(SECTION, "sagemaker-max-payload-mb", "6", "MaxPayloadInMB, as /execution-parameters tells it; lowered so that it and MaxConcurrentTransforms make at most 100 MB"),
    value(SECTION, "sagemaker-max-concurrent-transforms", "", "Requests that a batch transform job sends at the same time: no default of a queue is shorter"),
    value(SECTION, "root-model", "false", "Serve a model whose config.pbtxt lies directly in the platform's folder, as \"model\" whatever it says"),
    value(SECTION, "fail-on-user-script", "false", "End the start where a script such as code/inference.py comes with the model, as it would not run"),
    value(SECTION, "queue-timeout", "", "Longest wait in a queue in seconds, then the answer is 503; 0 or none for any. Where the model does not say (default_timeout_microseconds). Default: 50 where a hosting platform starts `serve`, but none in batch transform jobs and elsewhere"),
    value(SECTION, "startup-timeout", "none", "Seconds that loading may take at the start, then the start ends with an error; 0 or none for any"),
    value(SECTION, "model-load-timeout", "none", "Seconds that the load of one model may take at the start, then the start ends with an error; 0 or none for any"),
    value(SECTION, "eager-instances", "false", "Make every instance when its model is loaded, so that it is not ready before; otherwise further ones are made when they are needed"),
    value(SECTION, "secure-mode", "false", "Refuse models that bring code: libraries of operators (model_operations)"),
    value(SECTION, "gpu-memory-margin", "", "Part of each GPU's memory that ONNX models leave free, from 0 to 1: the instances of a model there share the rest in equal parts. Default: no limit"),
];
