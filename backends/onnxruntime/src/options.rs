//! The settings of a model's configuration, under Triton's names, read into what a session is made with.
//! Pure: nothing here touches the library.

use std::{
    collections::BTreeMap, fmt::Display, num::NonZeroUsize, ops::RangeInclusive, path::PathBuf,
    sync::Arc,
};

use backend::{BackendError, Device, ModelSource, Stop};
use graphs::Precision;

use crate::{
    native::Keeping,
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

/// In what numbers a graph that is made computes its products.
pub(crate) const PRECISION: &str = "precision";

/// Threads within an operator, of a run beside which there is no other.
const WIDE_INTRA_OP_THREADS: &str = "wide_intra_op_thread_count";

/// The processors of each thread, of so many threads.
const AFFINITIES: &str = "session.intra_op_thread_affinities";

/// How long a thread spins before it sleeps, in microseconds.
const SPIN_DURATION: &str = "session.intra_op.spin_duration_us";

/// That of threads that make runs with nothing beside them: longer than from one operator to the next, and than from
/// the answer to a client near by to its next request.
const WIDE_SPIN: &str = "200";

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
    /// How much of it may lie idle.
    pub(crate) keeping: Keeping,
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
            keeping: Keeping::ANY,
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
            entries.entry(SPIN_DURATION.to_owned()).or_insert_with(|| WIDE_SPIN.to_owned());
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

/// In what numbers products are computed, as the options of a model say.
///
/// # Errors
/// [`BackendError::Load`] for a name that no precision has.
pub(crate) fn precision_of(options: &BTreeMap<String, String>) -> Result<Precision, BackendError> {
    let Some(value) = options.get(PRECISION) else { return Ok(Precision::Fp32) };
    let named = Precision::from_name(value.trim());
    named.ok_or_else(|| bad(PRECISION, value, Precision::ALL.map(Precision::name).join(" or ")))
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
mod tests;
