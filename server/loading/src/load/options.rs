//! The settings that an engine is given for a model: the model's own, over those of the server, and its
//! accelerators; the libraries and buckets that its configuration names.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use backend::{Accelerator, Device, EngineDescription, Placement};

use crate::{
    config::{check::settings::FIRST_RESPONSE, choose::EngineChoice},
    load::placement::Plan,
    settings::{model_defaults::ModelDefaults, repository::BackendSetting},
};
use machine::gpus::Gpu;
use serving::config::{model::ModelConfig, raw};
use telemetry::metrics::ModelOptions;

/// The model's own settings, over those that the operator gave for the engine and for all models.
pub(crate) fn engine_options(
    choice: &EngineChoice,
    engine: &EngineDescription,
    settings: &[BackendSetting],
    defaults: &ModelDefaults,
) -> BTreeMap<String, String> {
    let backend = choice.backend.as_str();
    let of_engine = settings.iter().filter(|it| it.backend.as_deref() == Some(backend));
    let mut options: BTreeMap<String, String> =
        of_engine.map(|it| (it.key.clone(), it.value.clone())).collect();
    if let (Some(key), Some(threads)) = (engine.inter_op_threads, defaults.inter_op_threads) {
        options.insert(key.to_owned(), threads.to_string());
    }
    options.extend(choice.options.clone());
    options
}

/// One thread for each run, unless a setting says how many.
pub(crate) fn in_one_thread(options: &mut BTreeMap<String, String>, engine: &EngineDescription) {
    let Some(key) = engine.intra_op_threads else { return };
    options.entry(key.to_owned()).or_insert_with(|| "1".to_owned());
}

/// Bytes of GPU memory that each of the planned instances may take, so that `margin` of every GPU stays free; `None`
/// where none runs on a GPU, or a GPU's memory is not known. As the container of TensorFlow Serving, which rounds the
/// part to four decimals.
pub(crate) fn gpu_share(margin: f64, plan: &Plan, gpus: &[Gpu]) -> Option<u64> {
    let share = |it: &Placement| {
        let Device::Gpu(number) = it.device else { return Some(None) };
        let memory = gpus.iter().find(|it| it.number == number)?.memory?;
        let part = (1.0 - margin) / it.instances.get() as f64;
        let part = (part * 10_000.0).round() / 10_000.0;
        Some(Some((memory as f64 * part) as u64))
    };
    let shares: Vec<Option<u64>> =
        plan.placements().iter().map(share).collect::<Option<Vec<_>>>()?;
    shares.into_iter().flatten().min()
}

/// The configured accelerators for GPUs, for the engine to check.
pub(crate) fn gpu_accelerators(raw: &raw::ModelConfig) -> Vec<Accelerator> {
    let given = raw.optimization.iter().flat_map(|it| &it.execution_accelerators);
    let given = given.flat_map(|it| &it.gpu_execution_accelerator);
    given
        .map(|it| Accelerator { name: it.name.clone(), parameters: it.parameters.clone() })
        .collect()
}

/// Libraries of operators that the model's graph uses: below the model's directory, where there is such a file,
/// else as the system finds it, from the directory that the server was started in.
pub(crate) fn op_libraries(raw: &raw::ModelConfig, dir: &Path) -> Vec<PathBuf> {
    let names = raw.model_operations.iter().flat_map(|it| &it.op_library_filename);
    let place = |name: &String| Some(dir.join(name)).filter(|it| it.is_file());
    names.map(|it| place(it).unwrap_or_else(|| it.into())).collect()
}

/// The buckets of the first-response histogram, in whole milliseconds as they are measured.
pub(crate) fn first_response_ms(config: &ModelConfig) -> Vec<u64> {
    let Some(bounds) = config.histograms.get(FIRST_RESPONSE) else {
        return ModelOptions::default().first_response_ms;
    };
    // A whole number is at most 7.5 if it is at most 7. What is negative holds none, as 0 in place of it would not.
    let whole = bounds.iter().filter(|it| 0.0 <= **it).map(|it| it.floor() as u64);
    let mut whole: Vec<u64> = whole.collect();
    whole.dedup();
    whole
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::config::{
        check::{check, report::Report},
        engines::usual,
        open_ranks::OpenRanks,
        pbtxt::ConfigReader,
    };

    /// Keys and values for a model of that engine with these settings of its own.
    fn given(backend: &str, own: &[(&str, &str)]) -> Vec<String> {
        let setting = |backend: &str, key: &str, value: &str| BackendSetting {
            backend: Some(backend.to_owned()),
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let settings = [
            setting("onnxruntime", "gpu_mem_limit", "1"),
            setting("onnxruntime", "execution_mode", "1"),
            setting("pytorch", "FREEZE", "false"),
        ];
        let defaults =
            ModelDefaults { inter_op_threads: NonZeroUsize::new(3), ..ModelDefaults::default() };
        let own = own.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let choice = EngineChoice {
            platform: String::new(),
            backend: backend.to_owned(),
            default_model_filename: None,
            options: own.collect(),
        };
        let options = engine_options(&choice, usual().description(backend), &settings, &defaults);
        options.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn the_default_of_threads_among_operators_has_each_engines_own_key() {
        assert_eq!(given("pytorch", &[]), ["FREEZE=false", "INTER_OP_THREAD_COUNT=3"]);
        let own = [("execution_mode", "0"), ("inter_op_thread_count", "2")];
        let expected = ["execution_mode=0", "gpu_mem_limit=1", "inter_op_thread_count=2"];
        assert_eq!(given("onnxruntime", &own), expected);
        assert_eq!(given("identity", &[]), Vec::<String>::new());
    }

    #[test]
    fn one_thread_for_a_run_is_under_each_engines_own_key_and_yields_to_what_was_said() {
        let given = |backend, own: &[(&str, &str)]| {
            let own = own.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
            let mut options = own.collect();
            in_one_thread(&mut options, usual().description(backend));
            options.into_iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
        };
        assert_eq!(given("onnxruntime", &[]), ["intra_op_thread_count=1"]);
        assert_eq!(given("pytorch", &[]), ["INTRA_OP_THREAD_COUNT=1"]);
        let own = [("intra_op_thread_count", "4")];
        assert_eq!(given("onnxruntime", &own), ["intra_op_thread_count=4"]);
        assert_eq!(given("identity", &[]), Vec::<String>::new());
    }

    #[test]
    fn instances_of_a_gpu_share_what_the_margin_leaves() {
        let gpu = |number, memory| Gpu {
            number,
            uuid: String::new(),
            name: String::new(),
            memory,
            capability: None,
        };
        let plan =
            |devices: &[Device]| Plan { devices: devices.to_vec(), ..Plan::none(String::new()) };
        let gpus = [gpu(0, Some(30_000)), gpu(1, Some(10_000)), gpu(2, None)];
        let three = plan(&[Device::Gpu(0), Device::Gpu(0), Device::Gpu(0), Device::Cpu]);
        assert_eq!(gpu_share(0.2, &three, &gpus), Some(8001));
        let both = plan(&[Device::Gpu(0), Device::Gpu(1)]);
        assert_eq!(gpu_share(0.2, &both, &gpus), Some(8000));
        assert_eq!(gpu_share(0.2, &plan(&[Device::Cpu]), &gpus), None);
        assert_eq!(gpu_share(0.2, &plan(&[Device::Gpu(2)]), &gpus), None);
    }

    #[test]
    fn buckets_are_whole_milliseconds_and_those_of_triton_where_the_model_says_nothing() {
        let buckets = |bounds: &[f64]| {
            let read = ConfigReader::default();
            let raw = read.parse_text("m", "name: 'm' backend: 'identity'").unwrap();
            let mut config = check(&raw, &usual(), &OpenRanks::default(), &mut Report::default());
            if !bounds.is_empty() {
                config.histograms.insert(FIRST_RESPONSE.to_owned(), bounds.to_vec());
            }
            first_response_ms(&config)
        };
        assert_eq!(buckets(&[]), [100, 500, 2000, 5000]);
        assert_eq!(buckets(&[-1.0, 0.2, 0.7, 7.0, 70.5]), [0, 7, 70]);
    }
}
