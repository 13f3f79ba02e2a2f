//! The log: one line for each event, as text or JSON. They go by way of a bounded queue and a thread of its own, so
//! that a reader that stops reading never stops a request.
//!
//! Warnings and errors go to standard error, the rest to standard output, or all of it to a file. Lines
//! that find their queue full are dropped and counted; the count is logged once there is room again.

mod control;
mod format;
pub mod log_settings;
mod terminal;
mod writer;

use std::{
    fs::OpenOptions,
    io::{self, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tracing::{Event, Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    fmt,
    layer::{Context, SubscriberExt},
};

use control::LogState;
pub use control::{LogChangeError, LogControl, LogValue};
use format::{Line, SourceLine};
pub use log_settings::{LogFormat, LogSettings};
pub use terminal::progress;
use terminal::{Looks, PROGRESS};
use writer::{Writer, WriterGuard};

/// Flushes what has been logged when it is dropped, for a second at most.
#[must_use = "the last lines are lost without it"]
#[derive(Debug)]
pub struct LogGuard {
    writers: Vec<WriterGuard>,
    control: LogControl,
}

impl LogGuard {
    /// Waits until everything logged so far is written: before an exit that drops nothing. Blocking, for a
    /// second at most per output.
    pub fn flush(&self) {
        self.writers.iter().for_each(WriterGuard::flush);
    }

    /// The settings of this log.
    pub fn control(&self) -> LogControl {
        self.control.clone()
    }
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file of `--log-file` cannot be opened.
    #[error("--log-file '{path}': cannot open it for writing: {source}")]
    File {
        /// The path as given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot start a thread for the log: {0}")]
    Thread(io::Error),
    /// The process has a log already.
    #[error("the log was started twice")]
    Twice,
}

/// Starts the log of this process. Keep the guard until the end of `main`. `colours`: a terminal may have some.
pub fn start(config: &LogSettings, colours: bool) -> Result<LogGuard, LogError> {
    let looks = |is_terminal| Looks { is_terminal, colours: colours && is_terminal };
    let (subscriber, guard) = match &config.file {
        None => {
            let output =
                Output { sink: Box::new(io::stdout()), looks: looks(io::stdout().is_terminal()) };
            let errors =
                Output { sink: Box::new(io::stderr()), looks: looks(io::stderr().is_terminal()) };
            subscriber(config, output, Some(errors))?
        }
        Some(path) => {
            let file =
                OpenOptions::new().create(true).append(true).open(path).map_err(|source| {
                    LogError::File { path: path.display().to_string(), source }
                })?;
            subscriber(config, Output::from(file), None)?
        }
    };
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::Twice)?;
    Ok(guard)
}

/// Starts the log of a process whose standard error is read by the server: level and text, a line each.
pub fn start_plain() {
    let wanted = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_targets(LIBRARIES.iter().map(|it| (*it, LevelFilter::WARN)));
    let lines = fmt::layer().without_time().with_target(false).with_ansi(false);
    let subscriber = Registry::default().with(lines.with_writer(io::stderr).with_filter(wanted));
    // Nothing else has started a log in such a process.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// A place that lines go to.
struct Output {
    sink: Box<dyn Write + Send>,
    looks: Looks,
}

/// No terminal.
impl<W: Write + Send + 'static> From<W> for Output {
    fn from(sink: W) -> Output {
        Output { sink: Box::new(sink), looks: Looks::default() }
    }
}

/// A log that writes to `output`, and warnings and errors to `errors` where there is such a place.
fn subscriber(
    config: &LogSettings,
    output: Output,
    errors: Option<Output>,
) -> Result<(impl Subscriber + Send + Sync + use<>, LogGuard), LogError> {
    let control = LogControl::new(config);
    let start = |name, output: Output| {
        let Output { sink, looks } = output;
        let started = Writer::start(name, sink, control.shared()).map_err(LogError::Thread);
        started.map(|(writer, guard)| (LogTarget { writer, looks }, guard))
    };
    let (output, output_guard) = start("log-out", output)?;
    let (errors, errors_guard) = match errors {
        Some(errors) => {
            let (place, guard) = start("log-err", errors)?;
            (place, Some(guard))
        }
        None => (output.clone(), None),
    };
    let writers = std::iter::once(output_guard).chain(errors_guard).collect();
    let filter = Filter(control.shared());
    let layer = LogLayer { filter, output, errors, has_progress: AtomicBool::new(false) };
    Ok((Registry::default().with(layer), LogGuard { writers, control }))
}

/// Turns events into lines and hands them to the writers. Spans are not logged.
struct LogLayer {
    filter: Filter,
    output: LogTarget,
    errors: LogTarget,
    /// May a line about progress stand where the next line goes?
    has_progress: AtomicBool,
}

/// The writer to a place, and how lines look there.
#[derive(Clone)]
struct LogTarget {
    writer: Writer,
    looks: Looks,
}

impl LogLayer {
    /// Writes how far the server has come, where a person may see it. An empty text is the end.
    fn write_progress(&self, text: &str) {
        if self.output.looks.is_terminal && self.filter.0.format() == LogFormat::Text {
            self.has_progress.store(!text.is_empty(), Relaxed);
            self.output.writer.write(terminal::over(text));
        }
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.filter.wants(*metadata.level(), metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most())
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let level = *event.metadata().level();
        let metadata = event.metadata();
        let place = SourceLine::new(metadata.file().unwrap_or("-"), metadata.line().unwrap_or(0));
        let mut line = Line::new(self.filter.0.format(), level, place);
        event.record(&mut line);
        if metadata.target() == PROGRESS {
            return self.write_progress(&line.into_message());
        }
        let place = if level <= Level::WARN { &self.errors } else { &self.output };
        let text = line.finish(place.looks);
        let is_over = place.looks.is_terminal && self.has_progress.load(Relaxed);
        place.writer.write(if is_over { terminal::instead(&text) } else { text });
    }
}

/// Which lines are wanted, by the settings of the moment.
struct Filter(Arc<LogState>);

/// Libraries that talk a lot: a step louder is needed to hear them.
const LIBRARIES: &[&str] =
    &["h2", "hyper", "hyper_util", "mio", "ort", "rustls", "tokio", "tokio_util", "tonic", "tower"];

impl Filter {
    fn wants(&self, level: Level, target: &str) -> bool {
        let origin = target.split("::").next().unwrap_or(target);
        let library = u32::from(LIBRARIES.contains(&origin));
        match level {
            Level::ERROR => self.0.error(),
            Level::WARN => self.0.warning(),
            Level::INFO => self.0.info() && self.0.verbose() >= library,
            Level::DEBUG => self.0.verbose() > library,
            _ => self.0.verbose() > 1 + library,
        }
    }

    /// The most talkative level that may be wanted, so that the others cost nothing.
    fn most(&self) -> LevelFilter {
        match self.0.verbose() {
            0 if self.0.info() => LevelFilter::INFO,
            0 if self.0.warning() => LevelFilter::WARN,
            0 if self.0.error() => LevelFilter::ERROR,
            0 => LevelFilter::OFF,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        }
    }
}

#[cfg(test)]
mod tests;
