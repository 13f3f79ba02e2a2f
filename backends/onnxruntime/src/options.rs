//! The settings of a model's configuration, under Triton's names, read into what a session is made with.
//! Pure: nothing here touches the library.

use std::{
    collections::BTreeMap, fmt::Display, num::NonZeroUsize, ops::RangeInclusive, path::PathBuf,
    sync::Arc,
};

use backend::{BackendError, Device, ModelSource, Stop};

use crate::{
    provider::{self, Provider},
    session_keys::{self, SETTINGS_OF_FILES},
};

/// ONNX Runtime starts any number of threads that it is given. A larger number is taken for a mistake.
const MOST_THREADS: usize = 1024;

const SHRINKAGE: &str = "memory.enable_memory_arena_shrinkage";

/// The memory of the host, as [`SHRINKAGE`] calls it.
const HOST: &str = "cpu:0";

const INTRA_OP_SPINNING: &str = "session.intra_op.allow_spinning";
const INTER_OP_SPINNING: &str = "session.inter_op.allow_spinning";
const GRAPH_LEVEL: &str = "optimization.graph.level";

const INTRA_OP_THREADS: &str = "intra_op_thread_count";

/// Threads within an operator, of a run beside which there is no other.
const WIDE_INTRA_OP_THREADS: &str = "wide_intra_op_thread_count";

/// The processors of each thread, of so many threads.
const AFFINITIES: &str = "session.intra_op_thread_affinities";

/// Lets threads that spin go to sleep when a run is over.
const FORCE_SPINNING_STOP: &str = "session.force_spinning_stop";

/// How far ONNX Runtime may rewrite the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GraphLevel {
    Off,
    Basic,
    Extended,
    All,
}

/// What a session is made with.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What ONNX Runtime's messages about a session call it: the model's name.
    pub(crate) log_name: String,
    /// Threads within an operator, the caller's included. 1: no pool.
    pub(crate) intra_threads: usize,
    /// Threads among operators; of use only when `parallel`.
    pub(crate) inter_threads: usize,
    /// Run independent operators side by side?
    pub(crate) parallel: bool,
    /// Keep freed memory for the next run?
    pub(crate) arena: bool,
    /// Is that kept for the runs of other models, too?
    pub(crate) common_arena: bool,
    /// Plan one block of memory per set of input shapes, and remember the plan? (It is small: 8,192 shapes
    /// of a graph of 60 nodes took 1 MiB.)
    pub(crate) memory_pattern: bool,
    /// As `cpu:0;gpu:1`: where arenas are to shrink after each run.
    pub(crate) shrinkage: Option<String>,
    /// How far the graph may be rewritten.
    pub(crate) graph_level: GraphLevel,
    /// Keys and values for ONNX Runtime itself.
    pub(crate) entries: BTreeMap<String, String>,
    /// Libraries with operators that the graph uses.
    pub(crate) op_libraries: Vec<PathBuf>,
    /// What runs on a GPU, the preferred one first; none on the CPU, which runs what is left in any case.
    pub(crate) providers: Vec<Provider>,
    /// Is there one of the same model already?
    pub(crate) is_second: bool,
    /// Ends the making of a session.
    pub(crate) stop: Arc<Stop>,
}

impl Settings {
    /// The settings of the model's sessions on that device.
    pub(crate) fn of(source: &ModelSource, device: Device) -> Result<Settings, BackendError> {
        let providers = provider::providers(&source.options, &source.accelerators)?;
        let log_name = source.name.clone();
        let Device::Gpu(gpu) = device else {
            let settings = Settings::read(&source.options, source.default_threads)?;
            let op_libraries = source.op_libraries.clone();
            let stop = source.stop.clone();
            return Ok(Settings { log_name, op_libraries, stop, ..settings });
        };
        // The share of the processors is that of the instances on the CPU, where there are any.
        let threads = match source.is_for(Device::Cpu) {
            true => NonZeroUsize::MIN,
            false => source.default_threads,
        };
        let settings = Settings::read(&source.options, threads)?;
        let shrunk = Options(&source.options).shrinkage()?;
        if let Some(Device::Gpu(absent)) =
            shrunk.iter().find(|it| **it != Device::Cpu && !source.is_for(**it))
        {
            let problem = format!("{SHRINKAGE} names gpu:{absent}, where no instance runs");
            return Err(BackendError::Load(problem));
        }
        Ok(Settings {
            log_name,
            shrinkage: shrinkage_on(&shrunk, &[Device::Cpu, device]),
            op_libraries: source.op_libraries.clone(),
            providers: providers.iter().map(|it| it.on(gpu)).collect(),
            stop: source.stop.clone(),
            ..settings
        })
    }

    /// Those on the CPU. Reads the options that are ours and leaves the others alone: a configuration may
    /// hold parameters for anybody.
    pub(crate) fn read(
        options: &BTreeMap<String, String>,
        default_threads: NonZeroUsize,
    ) -> Result<Settings, BackendError> {
        let options = Options(options);
        let threads = |key| match options.number(key, 0..=MOST_THREADS)? {
            None | Some(0) => Ok(default_threads.get()),
            Some(count) => Ok(count),
        };
        let mut settings = Settings {
            log_name: String::new(),
            intra_threads: threads(INTRA_OP_THREADS)?,
            inter_threads: threads("inter_op_thread_count")?,
            parallel: options.flag("execution_mode")?.unwrap_or(false),
            arena: options.flag("enable_mem_arena")?.unwrap_or(true),
            common_arena: false,
            memory_pattern: options.flag("enable_mem_pattern")?.unwrap_or(true),
            shrinkage: shrinkage_on(&options.shrinkage()?, &[Device::Cpu]),
            graph_level: match options.number(GRAPH_LEVEL, -1..=2)? {
                None | Some(0) => GraphLevel::All,
                Some(-1) => GraphLevel::Basic,
                Some(1) => GraphLevel::Extended,
                Some(_) => GraphLevel::Off,
            },
            entries: BTreeMap::new(),
            op_libraries: Vec::new(),
            providers: Vec::new(),
            is_second: false,
            stop: Arc::default(),
        };
        options.flag("session.use_device_allocator_for_initializers")?;
        // Without this a pool's threads go on spinning for milliseconds after every run.
        for key in [INTRA_OP_SPINNING, INTER_OP_SPINNING] {
            settings.entries.insert(key.to_owned(), "0".to_owned());
        }
        settings.entries.extend(session_keys::passed_on(options.0, GRAPH_LEVEL)?);
        // On the CPU alone: a GPU's arena is always there.
        if settings.shrinkage.is_some() && !settings.arena {
            let problem =
                format!("{SHRINKAGE} needs the arena that enable_mem_arena '0' turns off");
            return Err(BackendError::Load(problem));
        }
        Ok(settings)
    }

    /// The arenas that shrink after a run which gives memory of the host back, in the form of `shrinkage`; `None` where
    /// that is no more than after any run.
    pub(crate) fn trimmed(&self) -> Option<String> {
        let always = self.shrinkage.as_deref().unwrap_or_default();
        let mut devices: Vec<&str> = always.split(';').filter(|it| !it.is_empty()).collect();
        let is_more = self.arena && !devices.contains(&HOST);
        devices.insert(0, HOST);
        is_more.then(|| devices.join(";"))
    }

    /// The settings of a session beside the one of these, for runs that may take all processors; `None` where those
    /// would have hardly more threads. Libraries of operators are not known to run the same in two sessions.
    pub(crate) fn wide(&self, source: &ModelSource) -> Result<Option<Settings>, BackendError> {
        let options = Options(&source.options);
        let asked = options.number(WIDE_INTRA_OP_THREADS, 0..=MOST_THREADS)?.filter(|it| 0 < *it);
        let own = options.number(INTRA_OP_THREADS, 0..=MOST_THREADS)?.filter(|it| 0 < *it);
        let all = source.wide_threads.filter(|_| own.is_none()).map(NonZeroUsize::get);
        let is_more = |wide: &usize| match asked {
            Some(_) => self.intra_threads < *wide,
            None => 3 * self.intra_threads <= 2 * *wide,
        };
        // What a session writes would be written twice.
        let of_one = |it: &String| SETTINGS_OF_FILES.contains(&it.as_str()) || it == AFFINITIES;
        let is_plain = self.op_libraries.is_empty() && !self.entries.keys().any(of_one);
        let threads = asked.or(all).filter(is_more).filter(|_| is_plain);
        let Some(intra_threads) = threads else { return Ok(None) };
        let mut entries = self.entries.clone();
        if !source.options.contains_key(INTRA_OP_SPINNING) {
            entries.insert(INTRA_OP_SPINNING.to_owned(), "1".to_owned());
            entries.entry(FORCE_SPINNING_STOP.to_owned()).or_insert_with(|| "1".to_owned());
        }
        let (stop, is_second) = (Arc::default(), true);
        Ok(Some(Settings { intra_threads, entries, stop, is_second, ..self.clone() }))
    }

    /// The settings of one session that so many instances run side by side. The caller of a run works in
    /// it, and its pool is what all of them would bring along.
    pub(crate) fn shared_by(&self, instances: NonZeroUsize) -> Settings {
        let pool = |threads: usize| {
            let helpers = threads.saturating_sub(1).saturating_mul(instances.get());
            (helpers + 1).min(MOST_THREADS.max(threads))
        };
        Settings {
            intra_threads: pool(self.intra_threads),
            inter_threads: pool(self.inter_threads),
            ..self.clone()
        }
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn flag(&self, key: &str) -> Result<Option<bool>, BackendError> {
        match self.0.get(key).map(|it| it.trim()) {
            None => Ok(None),
            Some("0") => Ok(Some(false)),
            Some("1") => Ok(Some(true)),
            Some(value) => Err(bad(key, value, "0 or 1")),
        }
    }

    fn number<N>(&self, key: &str, allowed: RangeInclusive<N>) -> Result<Option<N>, BackendError>
    where
        N: std::str::FromStr + PartialOrd + Display,
    {
        let Some(value) = self.0.get(key) else { return Ok(None) };
        let number = value.trim().parse().ok().filter(|it| allowed.contains(it));
        match number {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = allowed.into_inner();
                Err(bad(key, value, format!("a whole number from {least} to {most}")))
            }
        }
    }

    /// Devices as `cpu:0;gpu:0`. ONNX Runtime would notice a bad one at every single run.
    fn shrinkage(&self) -> Result<Vec<Device>, BackendError> {
        let Some(value) = self.0.get(SHRINKAGE).map(|it| it.trim()) else { return Ok(Vec::new()) };
        let device = |it: &str| match it.trim() {
            HOST => Some(Device::Cpu),
            it => it.strip_prefix("gpu:")?.parse().ok().map(Device::Gpu),
        };
        let named = value.split(';').filter(|it| !it.trim().is_empty());
        let devices: Option<Vec<Device>> = named.map(device).collect();
        devices.ok_or_else(|| bad(SHRINKAGE, value, "devices such as cpu:0, or cpu:0;gpu:0"))
    }
}

/// Those of the devices that a session has, as ONNX Runtime takes them.
fn shrinkage_on(devices: &[Device], of_session: &[Device]) -> Option<String> {
    let texts = devices.iter().filter(|it| of_session.contains(it)).map(|it| match it {
        Device::Cpu => HOST.to_owned(),
        Device::Gpu(number) => format!("gpu:{number}"),
    });
    let texts: Vec<String> = texts.collect();
    Some(texts.join(";")).filter(|it| !it.is_empty())
}

fn bad(key: &str, value: &str, expected: impl Display) -> BackendError {
    BackendError::Load(format!("parameter {key} is '{value}', expected {expected}"))
}

#[cfg(test)]
mod tests {
    use backend::Placement;

    use super::*;

    fn read(options: &[(&str, &str)]) -> Result<Settings, String> {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let threads = NonZeroUsize::new(3).unwrap();
        Settings::read(&options.collect(), threads).map_err(|it| it.to_string())
    }

    #[track_caller]
    fn refused(key: &str, value: &str, text: &str) {
        assert_eq!(read(&[(key, value)]).unwrap_err(), text);
    }

    #[test]
    fn without_options_the_threads_are_the_share_of_the_instance_and_do_not_spin() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.intra_threads, settings.inter_threads), (3, 3));
        assert_eq!((settings.parallel, settings.arena), (false, true));
        assert_eq!(settings.graph_level, GraphLevel::All);
        assert_eq!(settings.entries[INTRA_OP_SPINNING], "0");
    }

    #[test]
    fn zero_threads_mean_the_default_and_other_numbers_themselves() {
        let settings =
            read(&[("intra_op_thread_count", "0"), ("inter_op_thread_count", " 7 ")]).unwrap();
        assert_eq!((settings.intra_threads, settings.inter_threads), (3, 7));
    }

    #[test]
    fn a_shared_session_has_the_helpers_of_all_its_instances() {
        let pools = |threads: &str, instances| {
            let options = [("intra_op_thread_count", threads), ("inter_op_thread_count", threads)];
            let settings = read(&options).unwrap().shared_by(NonZeroUsize::new(instances).unwrap());
            assert_eq!(settings.intra_threads, settings.inter_threads);
            settings.intra_threads
        };
        assert_eq!((pools("4", 1), pools("4", 2), pools("2", 8)), (4, 7, 9));
        // Without a pool before, without one now.
        assert_eq!(pools("1", 8), 1);
        assert_eq!(pools("1024", 2), 1024);
    }

    /// Threads of a run that may take all of four processors, beside a session with so many, and does the pool spin?
    fn wide(usual: usize, options: &[(&str, &str)]) -> Option<(usize, String)> {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let source = ModelSource {
            options: options.collect(),
            wide_threads: NonZeroUsize::new(4),
            ..ModelSource::new("m", "m.onnx")
        };
        let settings = Settings::of(&source, Device::Cpu).unwrap();
        let wide = Settings { intra_threads: usual, ..settings }.wide(&source).unwrap()?;
        Some((wide.intra_threads, wide.entries[INTRA_OP_SPINNING].clone()))
    }

    #[test]
    fn a_run_that_may_take_all_processors_has_threads_that_spin_unless_told_otherwise() {
        let threads = |it| Some((it, "1".to_owned()));
        assert_eq!(wide(1, &[]), threads(4));
        assert_eq!(wide(2, &[]), threads(4));
        assert_eq!(wide(3, &[]), None, "hardly more");
        assert_eq!(wide(2, &[("intra_op_thread_count", "2")]), None, "somebody has said how many");
        assert_eq!(wide(3, &[(WIDE_INTRA_OP_THREADS, "4")]), threads(4));
        assert_eq!(wide(1, &[(WIDE_INTRA_OP_THREADS, "1")]), None);
        assert_eq!(wide(1, &[(AFFINITIES, "1")]), None);
        assert_eq!(wide(1, &[("session.optimized_model_filepath", "/tmp/m.onnx")]), None);
        assert_eq!(wide(1, &[(INTRA_OP_SPINNING, "0")]), Some((4, "0".to_owned())));
    }

    #[test]
    fn graph_levels_are_tritons() {
        for (value, level) in [
            ("-1", GraphLevel::Basic),
            ("0", GraphLevel::All),
            ("1", GraphLevel::Extended),
            ("2", GraphLevel::Off),
        ] {
            assert_eq!(read(&[(GRAPH_LEVEL, value)]).unwrap().graph_level, level);
        }
    }

    #[test]
    fn keys_of_the_runtime_are_passed_on_and_foreign_ones_left_alone() {
        const PREPACKING: &str = "session.disable_prepacking";
        let given =
            [(INTRA_OP_SPINNING, "1"), (PREPACKING, "y"), (GRAPH_LEVEL, "2"), ("team", "search")];
        let entries = read(&given).unwrap().entries;
        assert_eq!(entries[INTRA_OP_SPINNING], "1");
        assert_eq!(entries[PREPACKING], "y");
        assert!(!entries.contains_key(GRAPH_LEVEL) && !entries.contains_key("team"));
    }

    #[test]
    fn bad_values_are_named_with_what_was_expected() {
        refused(
            "intra_op_thread_count",
            "many",
            "parameter intra_op_thread_count is 'many', expected a whole number from 0 to 1024",
        );
        refused("execution_mode", "2", "parameter execution_mode is '2', expected 0 or 1");
        refused(
            GRAPH_LEVEL,
            "3",
            "parameter optimization.graph.level is '3', expected a whole number from -1 to 2",
        );
        refused(
            SHRINKAGE,
            "cpu0",
            "parameter memory.enable_memory_arena_shrinkage is 'cpu0', expected devices such as cpu:0, or \
             cpu:0;gpu:0",
        );
    }

    fn source(devices: &[Device], options: &[(&str, &str)]) -> ModelSource {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let instances = NonZeroUsize::MIN;
        ModelSource {
            options: options.collect(),
            default_threads: NonZeroUsize::new(3).unwrap(),
            placements: devices.iter().map(|&device| Placement { device, instances }).collect(),
            ..ModelSource::new("m", "m.onnx")
        }
    }

    fn on(
        device: Device,
        devices: &[Device],
        options: &[(&str, &str)],
    ) -> Result<Settings, String> {
        Settings::of(&source(devices, options), device).map_err(|it| it.to_string())
    }

    #[test]
    fn a_session_on_a_gpu_has_providers_on_that_gpu_and_one_on_the_cpu_has_none() {
        let both = [Device::Gpu(1), Device::Cpu];
        let gpu = on(Device::Gpu(1), &both, &[]).unwrap();
        assert_eq!(gpu.providers.len(), 1);
        assert_eq!(
            (gpu.log_name.as_str(), on(Device::Cpu, &both, &[]).unwrap().log_name.as_str()),
            ("m", "m")
        );
        assert_eq!(gpu.providers[0].options["device_id"], "1");
        assert_eq!(on(Device::Cpu, &both, &[]).unwrap().providers, []);
    }

    #[test]
    fn beside_instances_on_the_cpu_those_on_gpus_have_one_thread_unless_told() {
        let threads = |devices: &[Device], options: &[(&str, &str)]| {
            on(Device::Gpu(0), devices, options).unwrap().intra_threads
        };
        let own = [("intra_op_thread_count", "5")];
        assert_eq!(threads(&[Device::Gpu(0), Device::Cpu], &[]), 1);
        assert_eq!(threads(&[Device::Gpu(0)], &[]), 3);
        assert_eq!(threads(&[Device::Gpu(0), Device::Cpu], &own), 5);
    }

    #[test]
    fn a_session_is_the_same_where_those_on_other_devices_are_in_other_processes() {
        let devices = [Device::Gpu(0), Device::Gpu(1), Device::Cpu];
        let source = source(&devices, &[(SHRINKAGE, "gpu:0;gpu:1")]);
        for (device, apart) in devices.into_iter().zip(source.by_device()) {
            let settings = |source: &ModelSource| {
                let it = Settings::of(source, device).unwrap();
                (it.intra_threads, it.shrinkage, it.providers)
            };
            assert_eq!(settings(&apart), settings(&source), "{device:?}");
        }
    }

    #[test]
    fn arenas_shrink_where_the_session_is() {
        let given = [(SHRINKAGE, "cpu:0; gpu:0;gpu:1")];
        let gpus = [Device::Gpu(0), Device::Gpu(1)];
        let shrinks = |device, devices: &[Device]| Ok(on(device, devices, &given)?.shrinkage);
        assert_eq!(shrinks(Device::Gpu(1), &gpus), Ok(Some("cpu:0;gpu:1".to_owned())));
        assert_eq!(shrinks(Device::Cpu, &[Device::Cpu]), Ok(Some("cpu:0".to_owned())));
        assert_eq!(
            shrinks(Device::Gpu(0), &gpus[..1]),
            Err::<Option<String>, _>(format!("{SHRINKAGE} names gpu:1, where no instance runs"))
        );
    }

    #[test]
    fn a_slip_in_a_setting_for_gpus_is_told_on_the_cpu_as_well() {
        let text = on(Device::Cpu, &[Device::Cpu], &[("gpu_mem_limit", "much")]).unwrap_err();
        assert!(text.contains("gpu_mem_limit is 'much'"), "{text}");
    }

    #[test]
    fn where_memory_is_scarce_the_arena_of_the_host_shrinks_too() {
        let trimmed = |shrinkage: Option<&str>, arena| {
            let settings = read(&[]).unwrap();
            let shrinkage = shrinkage.map(str::to_owned);
            Settings { shrinkage, arena, ..settings }.trimmed()
        };
        assert_eq!(trimmed(None, true).as_deref(), Some("cpu:0"));
        assert_eq!(trimmed(Some("gpu:1"), true).as_deref(), Some("cpu:0;gpu:1"));
        assert_eq!(trimmed(Some("cpu:0;gpu:1"), true), None);
        assert_eq!(trimmed(None, false), None);
    }

    #[test]
    fn an_arena_that_is_off_cannot_shrink() {
        assert!(read(&[("enable_mem_arena", "0"), (SHRINKAGE, "cpu:0")]).is_err());
    }
}
