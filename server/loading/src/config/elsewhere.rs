//! Backends and platforms that other servers have and this one has not: what to do with a model of one. Pure.

const ONNX: &str = "export the model as ONNX";
const WRITERS: &str = "muster serves no models that write a text token by token";
const MLFLOW: &str = "leave the backend out: the MLmodel of MLflow's folder tells how it is served";

/// Names of backends and platforms, and what to do with a model of each.
const ADVICE: [(&str, &str); 13] = [
    ("tensorrt", "serve the ONNX file that the plan was built from"),
    ("tensorrt_plan", "serve the ONNX file that the plan was built from"),
    ("tensorrtllm", WRITERS),
    ("tensorrt_llm", WRITERS),
    ("vllm", WRITERS),
    ("mlflow", MLFLOW),
    (
        "dali",
        "decode and resize in the client, or serve the folder of a model of pictures as a pipeline",
    ),
    ("openvino", ONNX),
    ("caffe2_netdef", ONNX),
    ("tensorflow_graphdef", "save the model as a SavedModel, or export it as ONNX"),
    ("torch_aoti", "save the model as TorchScript, or export it as ONNX"),
    ("hugectr", ONNX),
    ("armnn_tflite", ONNX),
];

/// What to do with a model of that backend or platform; `None` where the name is not known.
pub(crate) fn advice(name: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(it, _)| *it == name).map(|(_, advice)| *advice)
}
