//! Models that are named one by one, in a file.

use super::{Repository, Start};

/// Every port is a free one.
pub const PORTS: [&str; 4] =
    ["--http-port=0", "--grpc-port=0", "--sagemaker-port=0", "--metrics-port=0"];

/// A file that names these models, each `name`, directory and further fields.
pub fn config(repository: &Repository, models: &[(&str, &str, &str)]) -> String {
    let config = |(name, dir, more): &(&str, &str, &str)| {
        let base_path = repository.at(dir);
        format!("  config {{\n    name: '{name}'\n    base_path: '{base_path}'\n    {more}\n  }}\n")
    };
    format!("model_config_list {{\n{}}}\n", models.iter().map(config).collect::<String>())
}

/// A server of what the file `models.config` of a repository names.
pub fn start(repository: &Repository, flags: &[&str]) -> Start {
    let file = format!("--model-config-file={}", repository.at("models.config"));
    Start::command(&[]).flags(&PORTS).flags(&[&file]).flags(flags)
}
