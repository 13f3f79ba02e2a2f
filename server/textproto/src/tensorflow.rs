//! The files that operators of TensorFlow Serving write: which models there are, how requests become batches, what the
//! server shows of itself.

use prost::Message;
use prost_reflect::DescriptorPool;

use super::{ReadError, parse};

/// The messages, generated from `proto/tensorflow_serving`.
// The comments of the definitions are the documentation; not every field needs one.
#[allow(missing_docs, clippy::all)]
pub mod raw {
    include!("../../proto/generated/tensorflow_serving/tensorflow.serving.rs");
}

/// Reads a model config file. `file` is what errors call it.
///
/// # Errors
/// Whatever is wrong, with its place.
pub fn model_server_config(file: &str, text: &str) -> Result<raw::ModelServerConfig, ReadError> {
    read("ModelServerConfig", "a model config file", file, text)
}

/// Reads a batching parameters file. `file` is what errors call it.
///
/// # Errors
/// Whatever is wrong, with its place.
pub fn batching_parameters(file: &str, text: &str) -> Result<raw::BatchingParameters, ReadError> {
    read("BatchingParameters", "a batching parameters file", file, text)
}

/// Reads a monitoring config file. `file` is what errors call it.
///
/// # Errors
/// Whatever is wrong, with its place.
pub fn monitoring_config(file: &str, text: &str) -> Result<raw::MonitoringConfig, ReadError> {
    read("MonitoringConfig", "a monitoring config file", file, text)
}

fn read<M: Message + Default>(
    message: &str,
    whole: &'static str,
    file: &str,
    text: &str,
) -> Result<M, ReadError> {
    let definition =
        include_bytes!("../../proto/generated/tensorflow_serving/tensorflow_serving.bin");
    // Read once in a long while; so it is not kept.
    let pool = DescriptorPool::decode(definition.as_slice()).expect("made by the build");
    let name = format!("tensorflow.serving.{message}");
    let message = pool.get_message_by_name(&name).expect("is in the definition");
    let dynamic = parse(message, whole, text)
        .map_err(|problems| ReadError { file: file.to_owned(), problems })?;
    Ok(M::decode(dynamic.encode_to_vec().as_slice()).expect("both come from one definition"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_config_file_is_read_as_its_authors_write_it() {
        let text = "model_config_list: { config: {
            name: 'half', base_path: \"/models/half\", model_platform: 'tensorflow'
            model_version_policy { specific { versions: 42 versions: 43 } }
            version_labels { key: 'stable' value: 42 } version_labels { key: 'canary' value: 43 }
            logging_config { log_collector_config { type: 'x' } sampling_config { sampling_rate: 0.1 } }
          } }";
        let Some(raw::model_server_config::Config::ModelConfigList(list)) =
            model_server_config("models.config", text).unwrap().config
        else {
            panic!("it is a list")
        };
        let model = &list.config[0];
        assert_eq!((&*model.name, &*model.base_path), ("half", "/models/half"));
        assert_eq!((model.version_labels["stable"], model.version_labels["canary"]), (42, 43));
    }

    #[test]
    fn an_error_has_its_place() {
        let text = "model_config_list {\n  config { name: 'a' basepath: 'b' }\n}\nmodels { }";
        let error = model_server_config("models.config", text).unwrap_err().to_string();
        let expected = "models.config:2:22: 'basepath' is not a field of 'model_config_list.config'; did you mean \
             'base_path'?\nmodels.config:4:1: 'models' is not a field of a model config file; its fields are \
             model_config_list, custom_model_config";
        assert_eq!(error, expected);
    }

    #[test]
    fn numbers_of_batching_parameters_are_wrapped() {
        let text = "max_batch_size { value: 128 }\nbatch_timeout_micros { value: 0 } allowed_batch_sizes: [8, 128]";
        let read = batching_parameters("b", text).unwrap();
        assert_eq!((read.max_batch_size, read.batch_timeout_micros), (Some(128), Some(0)));
        assert_eq!((read.max_enqueued_batches, &*read.allowed_batch_sizes), (None, &[8, 128][..]));
        let error = batching_parameters("b", "max_batch_size: 128").unwrap_err().to_string();
        assert_eq!(error, "b:1:17: max_batch_size: expected a message in '{ }', got '128'");
    }

    #[test]
    fn monitoring_names_a_path() {
        let text = "prometheus_config { enable: true, path: \"/m\" }";
        let prometheus = monitoring_config("m", text).unwrap().prometheus_config.unwrap();
        assert_eq!((prometheus.enable, &*prometheus.path), (true, "/m"));
    }
}
