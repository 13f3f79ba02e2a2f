//! The parameters of a model's configuration, under Triton's names, read into how the model is loaded and run.
//! Pure: nothing here touches the library.

use std::{collections::BTreeMap, fmt::Display, num::NonZeroUsize};

use backend::BackendError;

/// libtorch starts any number of threads that it is given. A larger number is taken for a mistake.
const MOST_THREADS: u32 = 1024;

/// How far a module may be rewritten before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rewrite {
    /// Not at all.
    Nothing,
    /// Its weights become constants, and what follows from that.
    Freeze,
    /// Also fused and laid out anew for the processor.
    Inference,
}

/// What a model is loaded and run with. `None` in a switch: as libtorch has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleSettings {
    /// Threads within an operator, the caller's included.
    pub(crate) threads: u32,
    /// Threads among operators; of the whole process.
    pub(crate) interop_threads: Option<u32>,
    pub(crate) inference_mode: bool,
    /// May the executor optimise the graph?
    pub(crate) optimized_execution: bool,
    /// Is the CUDA allocator's cache given back after each run?
    pub(crate) clean_cache: bool,
    pub(crate) disable_cudnn: bool,
    pub(crate) rewrite: Rewrite,
    /// May the module be run on zeros while it is loaded?
    pub(crate) trial_runs: bool,
    pub(crate) executor: Option<bool>,
    pub(crate) profiling: Option<bool>,
    pub(crate) fuser: Option<bool>,
}

impl ModuleSettings {
    /// Reads the parameters that are ours and leaves the others alone: a configuration may hold parameters
    /// for anybody.
    pub(crate) fn read(
        options: &BTreeMap<String, String>,
        default_threads: NonZeroUsize,
    ) -> Result<ModuleSettings, BackendError> {
        let options = Options(options);
        let share = u32::try_from(default_threads.get()).unwrap_or(MOST_THREADS);
        // All instances on a device share the weights in any case.
        options.flag("ENABLE_WEIGHT_SHARING")?;
        let freeze = options.flag("FREEZE")?;
        let for_inference = options.flag("OPTIMIZE_FOR_INFERENCE")?;
        let rewrite = match (freeze, for_inference) {
            (Some(false), Some(true)) => {
                let problem = "parameter OPTIMIZE_FOR_INFERENCE is 'true' and FREEZE is 'false': what is \
                               optimised for inference is frozen first";
                return Err(BackendError::Load(problem.to_owned()));
            }
            (Some(false), _) => Rewrite::Nothing,
            (_, Some(false)) => Rewrite::Freeze,
            _ => Rewrite::Inference,
        };
        Ok(ModuleSettings {
            threads: options.threads("INTRA_OP_THREAD_COUNT")?.unwrap_or(share.max(1)),
            interop_threads: options.threads("INTER_OP_THREAD_COUNT")?,
            inference_mode: options.flag("INFERENCE_MODE")?.unwrap_or(true),
            optimized_execution: !options.flag("DISABLE_OPTIMIZED_EXECUTION")?.unwrap_or(false),
            clean_cache: options.flag("ENABLE_CACHE_CLEANING")?.unwrap_or(false),
            disable_cudnn: options.flag("DISABLE_CUDNN")?.unwrap_or(false),
            rewrite,
            trial_runs: options.flag("TRIAL_RUNS")?.unwrap_or(true),
            executor: options.flag("ENABLE_JIT_EXECUTOR")?,
            profiling: options.flag("ENABLE_JIT_PROFILING")?,
            fuser: options.flag("ENABLE_TENSOR_FUSER")?,
        })
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn flag(&self, key: &str) -> Result<Option<bool>, BackendError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match value.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Some(true)),
            "false" | "0" => Ok(Some(false)),
            _ => Err(bad(key, value, "true or false")),
        }
    }

    /// `None` also for 0, which leaves the choice to the server.
    fn threads(&self, key: &str) -> Result<Option<u32>, BackendError> {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        match value.trim().parse() {
            Ok(0) => Ok(None),
            Ok(count) if count <= MOST_THREADS => Ok(Some(count)),
            _ => Err(bad(key, value, format!("a whole number from 0 to {MOST_THREADS}"))),
        }
    }
}

fn bad(key: &str, value: &str, expected: impl Display) -> BackendError {
    BackendError::Load(format!("parameter {key} is '{value}', expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<ModuleSettings, String> {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let threads = NonZeroUsize::new(3).unwrap();
        ModuleSettings::read(&options.collect(), threads).map_err(|it| it.to_string())
    }

    #[test]
    fn without_parameters_the_threads_are_the_share_of_the_instance_and_all_is_fast() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.threads, settings.interop_threads), (3, None));
        assert!(settings.inference_mode && settings.optimized_execution);
        assert!(!settings.clean_cache && !settings.disable_cudnn);
        assert_eq!(settings.rewrite, Rewrite::Inference);
        assert_eq!((settings.executor, settings.profiling, settings.fuser), (None, None, None));
    }

    #[test]
    fn flags_are_read_in_any_case_and_foreign_keys_left_alone() {
        let settings = read(&[
            ("INFERENCE_MODE", "False"),
            ("DISABLE_OPTIMIZED_EXECUTION", " TRUE "),
            ("ENABLE_JIT_PROFILING", "false"),
            ("NUM_THREADS", "many"),
            ("team", "search"),
        ]);
        let settings = settings.unwrap();
        assert!(!settings.inference_mode && !settings.optimized_execution);
        assert_eq!(settings.profiling, Some(false));
    }

    #[test]
    fn threads_are_those_given_and_zero_leaves_the_choice() {
        let threads = |value| read(&[("INTRA_OP_THREAD_COUNT", value)]).unwrap().threads;
        assert_eq!((threads("7"), threads("0")), (7, 3));
    }

    #[test]
    fn a_module_is_rewritten_as_far_as_is_allowed() {
        let rewrite = |options: &[(&str, &str)]| read(options).unwrap().rewrite;
        assert_eq!(rewrite(&[("FREEZE", "false")]), Rewrite::Nothing);
        assert_eq!(rewrite(&[("OPTIMIZE_FOR_INFERENCE", "false")]), Rewrite::Freeze);
        let both = [("FREEZE", "false"), ("OPTIMIZE_FOR_INFERENCE", "true")];
        assert!(read(&both).unwrap_err().contains("frozen first"));
    }

    #[test]
    fn bad_values_are_named_with_what_was_expected() {
        assert_eq!(
            read(&[("DISABLE_CUDNN", "maybe")]).unwrap_err(),
            "parameter DISABLE_CUDNN is 'maybe', expected true or false"
        );
        assert_eq!(
            read(&[("INTER_OP_THREAD_COUNT", "-1")]).unwrap_err(),
            "parameter INTER_OP_THREAD_COUNT is '-1', expected a whole number from 0 to 1024"
        );
    }
}
