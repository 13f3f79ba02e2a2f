//! The settings of tracing: what the command line says, what clients have changed for the server, what for a model.
//! Pure.

use std::{collections::BTreeMap, fmt};

use super::config::{TraceConfig, TraceLevels, TraceMode};
use crate::{error::Error, messages, signature::nearest};

/// Settings by name, in the form in which clients read and write them: each a list of texts.
pub type TraceSettings = BTreeMap<String, Vec<String>>;

/// Characters that are shown of what a client sent.
const LONGEST_SHOWN: usize = 64;

/// What holds for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) levels: TraceLevels,
    /// One request in so many; 0 for none but those that ask for it.
    pub(super) rate: u64,
    /// Traces to be made; `None` for any number.
    pub(super) count: Option<u64>,
    /// Traces in one file; 0 for all.
    pub(super) log_frequency: u64,
}

/// What a client has set, in place of what holds otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Overrides {
    levels: Option<TraceLevels>,
    rate: Option<u64>,
    count: Option<Option<u64>>,
    log_frequency: Option<u64>,
}

impl Overrides {
    fn over(&self, values: Values) -> Values {
        Values {
            levels: self.levels.unwrap_or(values.levels),
            rate: self.rate.unwrap_or(values.rate),
            count: self.count.unwrap_or(values.count),
            log_frequency: self.log_frequency.unwrap_or(values.log_frequency),
        }
    }
}

/// Does a change begin the count of traces anew?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recounts {
    Yes,
    No,
}

/// All settings.
#[derive(Debug, Clone)]
pub(super) struct TraceState {
    start: Values,
    mode: TraceMode,
    global: Overrides,
    /// Only models that have some.
    models: BTreeMap<String, Overrides>,
}

const LEVEL: &str = "trace_level";
const RATE: &str = "trace_rate";
const COUNT: &str = "trace_count";
const LOG_FREQUENCY: &str = "log_frequency";
const FILE: &str = "trace_file";
const MODE: &str = "trace_mode";

impl TraceState {
    pub(super) fn new(config: &TraceConfig) -> TraceState {
        let log_frequency = match &config.mode {
            TraceMode::Triton { log_frequency, .. } => *log_frequency,
            TraceMode::OpenTelemetry(_) => 0,
        };
        let TraceConfig { levels, rate, count, .. } = *config;
        TraceState {
            start: Values { levels, rate, count, log_frequency },
            mode: config.mode.clone(),
            global: Overrides::default(),
            models: BTreeMap::new(),
        }
    }

    /// What holds for models without settings of their own.
    pub(super) fn global(&self) -> Values {
        self.global.over(self.start)
    }

    /// What holds for those that have some, and whether they have the server's count.
    pub(super) fn models(&self) -> impl Iterator<Item = (&str, Values, bool)> {
        let global = self.global();
        self.models
            .iter()
            .map(move |(name, it)| (name.as_str(), it.over(global), it.count.is_none()))
    }

    /// Changes the settings of the server, or of a model.
    ///
    /// # Errors
    /// As [`super::Tracing::update`]; nothing is changed then.
    pub(super) fn update(
        &mut self,
        model: Option<&str>,
        changes: BTreeMap<String, Option<Vec<String>>>,
    ) -> Result<Recounts, Error> {
        let mut changed = match model {
            Some(name) => self.models.get(name).cloned().unwrap_or_default(),
            None => self.global.clone(),
        };
        let recounts = if changes.contains_key(COUNT) { Recounts::Yes } else { Recounts::No };
        for (name, given) in &changes {
            // A list without values is how gRPC says null.
            let given = given.as_deref().filter(|it| !it.is_empty());
            self.change(&mut changed, name, given)?;
        }
        let below = if model.is_some() { self.global() } else { self.start };
        self.check(changed.over(below))?;
        match model {
            Some(name) if changed == Overrides::default() => {
                self.models.remove(name);
            }
            Some(name) => {
                self.models.insert(name.to_owned(), changed);
            }
            None => self.global = changed,
        }
        Ok(recounts)
    }

    fn change(
        &self,
        overrides: &mut Overrides,
        name: &str,
        given: Option<&[String]>,
    ) -> Result<(), Error> {
        match name {
            LEVEL => overrides.levels = given.map(levels).transpose()?,
            RATE => overrides.rate = given.map(|it| number(RATE, it)).transpose()?,
            COUNT => overrides.count = given.map(count).transpose()?,
            LOG_FREQUENCY if matches!(self.mode, TraceMode::Triton { .. }) => {
                overrides.log_frequency = given.map(|it| number(LOG_FREQUENCY, it)).transpose()?;
            }
            FILE => {
                return Err(Error::Unimplemented(format!(
                    "{}: it is set by --trace-config when the server starts",
                    messages::TRACE_FILE
                )));
            }
            _ if self.shown(self.start, None).contains_key(name) => {
                return Err(Error::Unimplemented(format!(
                    "{name} cannot be changed while the server runs: it is set by --trace-config when the server \
                     starts"
                )));
            }
            _ => {
                let names = self.shown(self.start, None).into_keys().collect::<Vec<_>>();
                let near = nearest(name, names.iter().map(String::as_str));
                let near = near.map_or(String::new(), |it| format!("; did you mean {it}?"));
                return Err(Error::InvalidRequest(format!(
                    "there is no trace setting '{}'{near} (there are {})",
                    shown(name),
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Can traces be made so?
    fn check(&self, values: Values) -> Result<(), Error> {
        // Without a file traces go nowhere, which is no error: some clients switch traces on by habit.
        if !matches!(self.mode, TraceMode::Triton { .. }) || !values.levels.are_on() {
            return Ok(());
        }
        if values.rate == 0 {
            return Err(Error::InvalidRequest(format!(
                "{RATE}: expected a whole number from 1, given 0, which would trace nothing"
            )));
        }
        Ok(())
    }

    /// As clients read them; `left` is how many traces may still be made.
    pub(super) fn shown(&self, values: Values, left: Option<u64>) -> TraceSettings {
        let mut shown = TraceSettings::new();
        let mut set = |name: &str, value: String| {
            shown.entry(name.to_owned()).or_default().push(value);
        };
        let Values { levels, rate, log_frequency, .. } = values;
        let names = [(levels.timestamps, TIMESTAMPS), (levels.tensors, TENSORS)];
        for (_, name) in names.into_iter().filter(|(on, _)| *on) {
            set(LEVEL, name.to_owned());
        }
        if !levels.are_on() {
            set(LEVEL, OFF.to_owned());
        }
        set(RATE, rate.to_string());
        set(COUNT, left.map_or("-1".to_owned(), |it| it.to_string()));
        match &self.mode {
            TraceMode::Triton { file, .. } => {
                set(LOG_FREQUENCY, log_frequency.to_string());
                set(FILE, file.as_ref().map_or(String::new(), |it| it.display().to_string()));
                set(MODE, "triton".to_owned());
            }
            TraceMode::OpenTelemetry(collector) => {
                set(MODE, "opentelemetry".to_owned());
                set("url", collector.url.clone());
                for (key, value) in &collector.resource {
                    set("resource", format!("{key}={value}"));
                }
                set("bsp_max_queue_size", collector.max_queue.to_string());
                set("bsp_schedule_delay", collector.schedule_delay.as_millis().to_string());
                set("bsp_max_export_batch_size", collector.max_batch.to_string());
            }
        }
        shown
    }
}

const OFF: &str = "OFF";
const TIMESTAMPS: &str = "TIMESTAMPS";
const TENSORS: &str = "TENSORS";

fn levels(given: &[String]) -> Result<TraceLevels, Error> {
    let mut levels = TraceLevels::default();
    for name in given {
        match name.as_str() {
            OFF if given.len() == 1 => {}
            OFF => return Err(wrong(LEVEL, "OFF alone, or other levels", given.join(", "))),
            TIMESTAMPS => levels.timestamps = true,
            TENSORS => levels.tensors = true,
            _ => return Err(wrong(LEVEL, "OFF, TIMESTAMPS or TENSORS", name)),
        }
    }
    Ok(levels)
}

fn one<'a>(setting: &str, given: &'a [String]) -> Result<&'a str, Error> {
    match given {
        [one] => Ok(one),
        several => Err(wrong(setting, "one value", format!("{} of them", several.len()))),
    }
}

fn number(setting: &str, given: &[String]) -> Result<u64, Error> {
    let text = one(setting, given)?;
    text.parse().map_err(|_| wrong(setting, "a whole number from 0", text))
}

/// -1 is any number.
fn count(given: &[String]) -> Result<Option<u64>, Error> {
    match one(COUNT, given)? {
        "-1" => Ok(None),
        // The largest of Triton's numbers: what is above would be no number there.
        text => match text.parse::<i64>().ok().and_then(|it| u64::try_from(it).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(wrong(COUNT, "a whole number from 0, or -1 for any number", text)),
        },
    }
}

fn wrong(setting: &str, expected: &str, given: impl fmt::Display) -> Error {
    let given = shown(&given.to_string());
    Error::InvalidRequest(format!("{setting}: expected {expected}, given '{given}'"))
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn settings(file: Option<&str>) -> TraceState {
        let mode = TraceMode::Triton { file: file.map(PathBuf::from), log_frequency: 7 };
        let levels = TraceLevels::default();
        TraceState::new(&TraceConfig { levels, rate: 1000, count: None, mode })
    }

    fn update(
        settings: &mut TraceState,
        model: Option<&str>,
        changes: &[(&str, Option<&[&str]>)],
    ) -> Result<Recounts, Error> {
        let texts = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        let changes =
            changes.iter().map(|(name, given)| ((*name).to_owned(), given.map(texts))).collect();
        settings.update(model, changes)
    }

    #[track_caller]
    fn refused(changes: &[(&str, Option<&[&str]>)], parts: &[&str]) {
        let mut settings = settings(Some("/tmp/t"));
        let before = settings.global();
        let error = update(&mut settings, None, changes).unwrap_err();
        assert!(matches!(error, Error::InvalidRequest(_)), "{error:?}");
        for part in parts {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
        assert_eq!(settings.global(), before);
    }

    #[test]
    fn what_is_wrong_is_named_and_nothing_is_changed() {
        refused(&[(LEVEL, Some(&["OFF", "TENSORS"])), (RATE, Some(&["5"]))], &["OFF alone"]);
        refused(&[(LEVEL, Some(&["LOUD"]))], &["trace_level", "TIMESTAMPS", "'LOUD'"]);
        refused(&[(RATE, Some(&["x"]))], &["trace_rate", "whole number", "'x'"]);
        refused(&[(RATE, Some(&["1", "2"]))], &["trace_rate", "one value", "2 of them"]);
        refused(&[(RATE, Some(&["0"])), (LEVEL, Some(&["TENSORS"]))], &["trace_rate", "from 1"]);
        refused(&[(COUNT, Some(&["-2"]))], &["trace_count", "-1"]);
        refused(&[(LOG_FREQUENCY, Some(&["-1"]))], &["log_frequency"]);
        refused(&[("trace_rat", Some(&["1"]))], &["'trace_rat'", "did you mean trace_rate?"]);
        refused(&[(LEVEL, Some(&[&"y".repeat(1 << 20)]))], &["yyy'"]);
    }

    #[test]
    fn file_and_mode_are_not_for_clients() {
        let mut settings = settings(Some("/tmp/t"));
        for name in [FILE, MODE] {
            let error = update(&mut settings, None, &[(name, Some(&["/etc/passwd"]))]).unwrap_err();
            assert!(matches!(error, Error::Unimplemented(_)), "{error:?}");
        }
    }

    #[test]
    fn levels_may_be_set_where_traces_have_nowhere_to_go() {
        let mut settings = settings(None);
        update(&mut settings, None, &[(LEVEL, Some(&["TIMESTAMPS"]))]).unwrap();
        update(&mut settings, None, &[(RATE, Some(&["5"])), (LEVEL, Some(&["OFF"]))]).unwrap();
        assert_eq!(settings.global().rate, 5);
    }

    #[test]
    fn a_model_has_what_it_was_given_then_the_servers_then_the_command_lines() {
        let mut settings = settings(Some("/tmp/t"));
        update(&mut settings, Some("m"), &[(RATE, Some(&["3"]))]).unwrap();
        update(&mut settings, None, &[(COUNT, Some(&["8"])), (RATE, Some(&["2"]))]).unwrap();
        let of = |settings: &TraceState| settings.models().map(|it| (it.1.rate, it.1.count)).next();
        assert_eq!(of(&settings), Some((3, Some(8))));
        assert_eq!(settings.global().rate, 2);
        update(&mut settings, None, &[(COUNT, None), (RATE, Some(&[]))]).unwrap();
        assert_eq!(settings.global(), settings.start);
        update(&mut settings, Some("m"), &[(RATE, None)]).unwrap();
        assert_eq!(of(&settings), None);
    }
}
