//! A multi-model endpoint.

use super::{Repository, Server, Start};

/// An endpoint over these models, with further flags.
pub fn start(models: &Repository, flags: &[&str]) -> Server {
    let root = format!("--sagemaker-models-root={}", models.at(""));
    let ports = ["http", "grpc", "sagemaker", "metrics"].map(|it| format!("--{it}-port=0"));
    let ports: Vec<&str> = ports.iter().map(|it| &**it).collect();
    Start::command(&["--sagemaker-multi-model=true", &root]).flags(&ports).flags(flags).run()
}
