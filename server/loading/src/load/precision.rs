//! The precision of a graph that is made for weights: what is said of it, as an option of its engine.

use std::{collections::BTreeMap, path::Path};

use serving::pipeline::pipeline_settings::PipelineSettings;
use steps::{WEIGHTS, said_precision};

/// The engine's name for it, and that of parameters in configurations.
pub(crate) const PRECISION: &str = "precision";

/// Adds it to the options of the engine: what the server says, of graphs that are made alone, else what a file in the
/// folder says, else what they have already. `path` is that of the graph or of the weights.
pub(crate) fn add_precision(
    options: &mut BTreeMap<String, String>,
    settings: &PipelineSettings,
    folder: Option<&Path>,
    path: &Path,
) {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    let of_server = settings.precision.filter(|_| WEIGHTS.contains(&name) && folder.is_some());
    if let Some(said) = of_server.or_else(|| folder.and_then(said_precision)) {
        options.insert(PRECISION.to_owned(), said.name().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use steps::Precision;

    use super::*;

    #[test]
    fn a_flag_says_it_of_graphs_that_are_made_and_of_no_other() {
        let said = |name: &str, precision, own: &[(&str, &str)]| {
            let own = own.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let mut options = own.collect();
            let settings = PipelineSettings { precision, ..PipelineSettings::default() };
            let folder = Path::new("/nowhere");
            add_precision(&mut options, &settings, Some(folder), &folder.join(name));
            options.remove(PRECISION)
        };
        let int8 = Some(Precision::Int8);
        assert_eq!(said("model.safetensors", int8, &[]), Some("int8".to_owned()));
        assert_eq!(said("model.onnx", int8, &[]), None);
        let own = [(PRECISION, "int8")];
        assert_eq!(said("model.safetensors", None, &own), Some("int8".to_owned()));
        let fp32 = Some(Precision::Fp32);
        assert_eq!(said("model.safetensors", fp32, &own), Some("fp32".to_owned()));
    }
}
