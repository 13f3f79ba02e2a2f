//! Whose dialect a body of `/invocations` has, and what it asks for.

/// What one of SageMaker's containers does in bodies, replies and errors, where a request leaves a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// TensorFlow Serving's.
    Tfs,
    /// Triton's.
    Triton,
    /// Hugging Face's.
    HuggingFace,
    /// Those made with the inference toolkits, that of PyTorch among them.
    Toolkit,
    /// XGBoost's.
    Xgboost,
    /// MLflow's image.
    Mlflow,
    /// Those of AWS's built-in image algorithms.
    BuiltIn,
    /// Those of JumpStart's models.
    JumpStart,
}

/// What a KServe v2 request to `/invocations` is: Triton's inference types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InferenceType {
    /// A request as to `infer`.
    #[default]
    Infer,
    /// A flat object, answered with one.
    Generate,
    /// A flat object, answered with events.
    GenerateStream,
}
