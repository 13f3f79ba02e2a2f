//! Metrics for machines that cannot be scraped: at every interval one line for each invoked model and one for the
//! process, on standard output, in CloudWatch's embedded metric format. A thread of its own writes them, so that
//! neither a request nor a health check waits for the reader of the lines.

mod document;
mod window;

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::settings::emf::EmfSettings;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use document::Usage;
use machine::gpus::Sensor;
use serving::ModelManager;
use telemetry::metrics::{Metrics, Resources};
use window::{MOST_VALUES, Window};

/// Most models with a line of their own; all further models share one line.
const MOST_MODELS: usize = 200;

/// The name of the shared line.
const OTHERS: &str = "_other";

/// Counts invocations. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Counted>>);

#[derive(Debug, Default)]
struct Counted {
    models: BTreeMap<Arc<str>, Window>,
    /// In microseconds, as are `loads` and `unloads`.
    setup: Option<u64>,
    loads: Vec<u64>,
    unloads: Vec<u64>,
}

/// One invocation. It counts as in flight until it is dropped: when its reply is written, or its client has left.
#[derive(Debug)]
pub struct Invocation {
    recorder: Recorder,
    model: Arc<str>,
    began: Instant,
    status: Option<u16>,
}

impl Recorder {
    /// Counts an invocation of this model, which begins now.
    pub fn begin(&self, model: &Arc<str>) -> Invocation {
        let mut counted = self.lock();
        let is_full = MOST_MODELS <= counted.models.len() && !counted.models.contains_key(model);
        let model = if is_full { OTHERS.into() } else { model.clone() };
        counted.models.entry(model.clone()).or_default().begin();
        drop(counted);
        Invocation { recorder: self.clone(), model, began: Instant::now(), status: None }
    }

    /// Records the time from the start of the process until it was ready.
    pub fn ready(&self, spent: Duration) {
        self.lock().setup = Some(microseconds(spent));
    }

    /// Records how long the load of a model took.
    pub fn loaded(&self, spent: Duration) {
        note(&mut self.lock().loads, spent);
    }

    /// Records how long the unload of a model took.
    pub fn unloaded(&self, spent: Duration) {
        note(&mut self.lock().unloads, spent);
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts since the last call. Models without requests are forgotten.
    fn take(&self) -> Counted {
        let mut counted = self.lock();
        let models = counted.models.iter_mut().map(|(name, it)| (name.clone(), it.take()));
        let models = models.filter(|(_, it)| !it.is_idle()).collect();
        counted.models.retain(|_, it| !it.is_idle());
        let (loads, unloads) =
            (std::mem::take(&mut counted.loads), std::mem::take(&mut counted.unloads));
        Counted { models, setup: counted.setup.take(), loads, unloads }
    }
}

fn note(times: &mut Vec<u64>, spent: Duration) {
    if times.len() < MOST_VALUES {
        times.push(microseconds(spent));
    }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Invocation {
    /// The invocation is answered with this status.
    pub fn answered(&mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for Invocation {
    fn drop(&mut self) {
        let mut counted = self.recorder.lock();
        if let Some(window) = counted.models.get_mut(&self.model) {
            window.end(self.status, self.began.elapsed());
        }
    }
}

/// The sources of the lines.
pub struct Sources {
    /// The counts of invocations.
    pub recorder: Recorder,
    /// The use of the process and of the machine.
    pub metrics: Metrics,
    /// The models that serve.
    pub models: Arc<ModelManager>,
    /// Bytes that the process may use; `None` where no limit is known.
    pub memory: Option<u64>,
}

/// Writes the lines until it is dropped, and the last lines then.
pub struct Emf {
    stop: Sender<()>,
    /// Closes when the thread has ended.
    ended: Receiver<()>,
}

impl Emf {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses one.
    pub fn start(config: EmfSettings, sources: Sources) -> io::Result<Emf> {
        let (stop, stopped) = bounded(0);
        let (end, ended) = bounded(0);
        let work = move || {
            write(&config, &sources, &stopped);
            drop(end);
        };
        thread::Builder::new().name("emf".to_owned()).spawn(work)?;
        Ok(Emf { stop, ended })
    }

    /// Has the last lines written, and waits for that at most for `patience`. Blocking.
    pub fn finish(self, patience: Duration) {
        drop(self.stop);
        // A reader of the lines that has stopped must not keep the process alive.
        let _ = self.ended.recv_timeout(patience);
    }
}

fn write(config: &EmfSettings, sources: &Sources, stopped: &Receiver<()>) {
    let mut last = (Instant::now(), sources.metrics.resources().cpu_seconds);
    loop {
        let ended = stopped.recv_timeout(config.interval) == Err(RecvTimeoutError::Disconnected);
        let at = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        let counted = sources.recorder.take();
        let mut lines = String::new();
        for (model, window) in &counted.models {
            lines += &document::of_model(&config.namespace, at, model, window);
        }
        sources.metrics.sample_process();
        let resources = sources.metrics.resources();
        let passed = last.0.elapsed().as_secs_f64();
        let mut usage = usage(&resources, sources.memory);
        usage.cpu_percent =
            resources.cpu_seconds.zip(last.1).map(|(now, then)| (now - then) / passed * 100.0);
        usage.models = sources.models.ready_names().len() as u64;
        (usage.setup, usage.loads, usage.unloads) = (counted.setup, counted.loads, counted.unloads);
        lines += &document::of_process(&config.namespace, at, &usage);
        last = (Instant::now(), resources.cpu_seconds);
        // One write for all lines, so that they do not mix with the log. An error means that the reader has left,
        // which is no reason to stop.
        let _ = io::stdout().lock().write_all(lines.as_bytes());
        if ended {
            return;
        }
    }
}

fn usage(resources: &Resources, memory: Option<u64>) -> Usage {
    let percent = |part: u64, whole: u64| (0 < whole).then(|| part as f64 / whole as f64 * 100.0);
    let disk = rustix::fs::statvfs("/").ok();
    let of = |gpu: &str, sensor| {
        resources.gpus.iter().find(|it| it.0 == gpu && it.1 == sensor).map(|it| it.2)
    };
    let mut gpus: Vec<&str> = resources.gpus.iter().map(|it| &*it.0).collect();
    gpus.dedup();
    // Without a GPU the value is absent, which is not 0.
    let sum = |share: &dyn Fn(&str) -> Option<f64>| {
        gpus.iter().filter_map(|it| share(it)).reduce(|sum, it| sum + it).map(|it| it * 100.0)
    };
    let memory_share = |gpu: &str| {
        let total = of(gpu, Sensor::MemoryTotal).filter(|&it| 0.0 < it)?;
        Some(of(gpu, Sensor::MemoryUsed)? / total)
    };
    Usage {
        memory_percent: memory
            .zip(resources.resident_bytes)
            .and_then(|(most, used)| percent(used, most)),
        disk_percent: disk
            .and_then(|it| percent(it.f_blocks.saturating_sub(it.f_bavail), it.f_blocks)),
        gpu_percent: sum(&|gpu| of(gpu, Sensor::Utilization)),
        gpu_memory_percent: sum(&memory_share),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invocation_is_counted_when_its_reply_has_gone() {
        let recorder = Recorder::default();
        let mut one = recorder.begin(&"m".into());
        one.answered(200);
        let counted = recorder.take();
        assert_eq!((counted.models["m"].invocations, counted.models["m"].model_errors), (1, 0));
        assert_eq!(counted.models["m"].latency.values.len(), 0);
        drop(one);
        let left = recorder.begin(&"m".into());
        drop(left);
        let counted = recorder.take();
        let window = &counted.models["m"];
        assert_eq!((window.invocations, window.model_errors), (1, 1));
        assert_eq!(window.latency.values.len(), 2);
        assert!(recorder.take().models.is_empty());
    }

    #[test]
    fn shares_of_gpus_are_summed() {
        let gpu = |name: &str, busy, used, total| {
            let of = |sensor, value| (name.to_owned(), sensor, value);
            [
                of(Sensor::Utilization, busy),
                of(Sensor::MemoryTotal, total),
                of(Sensor::MemoryUsed, used),
            ]
        };
        let gpus = [gpu("a", 0.5, 1.0, 4.0), gpu("b", 1.0, 6.0, 8.0)].concat();
        let resources = Resources { gpus, ..Resources::default() };
        let usage = usage(&resources, None);
        assert_eq!((usage.gpu_percent, usage.gpu_memory_percent), (Some(150.0), Some(100.0)));
        assert_eq!(super::usage(&Resources::default(), None).gpu_percent, None);
    }

    #[test]
    fn models_beyond_the_bound_share_a_line() {
        let recorder = Recorder::default();
        for number in 0..MOST_MODELS + 5 {
            recorder.begin(&format!("m{number}").into()).answered(200);
        }
        let counted = recorder.take();
        assert_eq!(counted.models.len(), MOST_MODELS + 1);
        assert_eq!(counted.models[OTHERS].invocations, 5);
    }
}
