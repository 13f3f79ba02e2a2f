//! Which requests are traced, and where the traces go: `--trace-config` and its older names, `OTEL_*`.

use std::{path::PathBuf, time::Duration};

use inference::trace::{Collector, TraceConfig, TraceLevels, TraceMode};

use configuration::{
    Environment, Flag, Notice, Sources,
    value::{self, Parse},
    variable_text,
};

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::many("trace-config", "level=OFF|TIMESTAMPS|TENSORS, rate=<one in so many> (1000), count=<so many, -1 for all> (-1), mode=triton|opentelemetry; triton,file=<path>, triton,log-frequency=<traces in one file, 0 for all>; opentelemetry,url=<http://host:port/path> (http://localhost:4318/v1/traces), opentelemetry,resource=<key>=<value>, opentelemetry,bsp_max_queue_size=<spans>, opentelemetry,bsp_schedule_delay=<milliseconds>, opentelemetry,bsp_max_export_batch_size=<spans>").named("[MODE,]KEY=VALUE"),
    Flag::value("trace-file", "", "Older name of --trace-config triton,file=<path>").named("FILE"),
    Flag::many("trace-level", "Older name of --trace-config level=<level>").named("LEVEL"),
    Flag::value("trace-rate", "", "Older name of --trace-config rate=<number>").named("COUNT"),
    Flag::value("trace-count", "", "Older name of --trace-config count=<number>").named("COUNT"),
    Flag::value("trace-log-frequency", "", "Older name of --trace-config triton,log-frequency=<number>").named("COUNT"),
];

/// One `--trace-config`.
#[derive(Debug, Clone, PartialEq)]
enum Setting {
    Off,
    Timestamps,
    Tensors,
    Rate(u64),
    /// `None` for any number.
    Count(Option<u64>),
    Mode(Mode),
    File(PathBuf),
    LogFrequency(u64),
    Url(String),
    Resource(String, String),
    MaxQueue(usize),
    ScheduleDelay(Duration),
    MaxBatch(usize),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Triton,
    OpenTelemetry,
}

const DEFAULT_URL: &str = "http://localhost:4318/v1/traces";

/// Where traces are taken below the address of a collector that takes more than those.
const TRACES: &str = "/v1/traces";

/// Reads it.
pub fn resolve(
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> TraceConfig {
    let settings = settings(sources, problems);
    let last = |pick: fn(&Setting) -> bool| settings.iter().rev().find(|it| pick(it)).cloned();
    let mut levels = TraceLevels::default();
    for setting in &settings {
        match setting {
            Setting::Off => levels = TraceLevels::default(),
            Setting::Timestamps => levels.timestamps = true,
            Setting::Tensors => levels.tensors = true,
            _ => {}
        }
    }
    let mode = match last(|it| matches!(it, Setting::Mode(_))) {
        Some(Setting::Mode(Mode::OpenTelemetry)) => {
            TraceMode::OpenTelemetry(collector(&settings, sources, environment, problems))
        }
        _ => TraceMode::Triton {
            file: match last(|it| matches!(it, Setting::File(_))) {
                Some(Setting::File(path)) => Some(path),
                _ => None,
            },
            log_frequency: match last(|it| matches!(it, Setting::LogFrequency(_))) {
                Some(Setting::LogFrequency(traces)) => traces,
                _ => 0,
            },
        },
    };
    let rate = match last(|it| matches!(it, Setting::Rate(_))) {
        Some(Setting::Rate(rate)) => rate,
        _ => 1000,
    };
    if let TraceMode::Triton { file, .. } = &mode
        && levels.are_on()
    {
        if file.is_none() {
            problems.push(
                "--trace-config: a level is on, and the traces have nowhere to go: expected \
                 triton,file=<path> or mode=opentelemetry"
                    .to_owned(),
            );
        }
        if rate == 0 {
            problems.push(
                "--trace-config 'rate=0': expected a number from 1 in the mode triton: 0 traces only \
                 requests that bring a traceparent, in the mode opentelemetry"
                    .to_owned(),
            );
        }
    }
    let count = match last(|it| matches!(it, Setting::Count(_))) {
        Some(Setting::Count(count)) => count,
        _ => None,
    };
    TraceConfig { levels, rate, count, mode }
}

/// What the older options say, then what `--trace-config` says, which wins.
fn settings(sources: &Sources, problems: &mut Vec<String>) -> Vec<Setting> {
    let mut settings = sources.read_all("trace-level", level, problems);
    settings.extend(sources.read("trace-file", value::path, problems).map(Setting::File));
    settings.extend(sources.read("trace-rate", whole, problems).map(Setting::Rate));
    settings.extend(sources.read("trace-count", count, problems).map(Setting::Count));
    let frequency = sources.read("trace-log-frequency", whole, problems);
    settings.extend(frequency.map(Setting::LogFrequency));
    settings.extend(sources.read_all("trace-config", setting, problems));
    settings
}

/// `[<mode>,]<setting>=<value>`.
fn setting(text: &str) -> Parse<Setting> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        "[<mode>,]<setting>=<value>, as level=TIMESTAMPS or triton,file=/tmp/trace.json".to_owned()
    })?;
    let of = |what: &str| {
        let what = what.to_owned();
        move |allowed: String| format!("{allowed} for {what}")
    };
    match name.split_once(',') {
        None => match name {
            "level" => level(value).map_err(of(name)),
            "rate" => whole(value).map(Setting::Rate).map_err(of(name)),
            "count" => count(value).map(Setting::Count).map_err(of(name)),
            "mode" => match value {
                "triton" => Ok(Setting::Mode(Mode::Triton)),
                "opentelemetry" => Ok(Setting::Mode(Mode::OpenTelemetry)),
                _ => Err("triton or opentelemetry for mode".to_owned()),
            },
            _ => Err("level=, rate=, count= or mode=, or a mode and a comma in front".to_owned()),
        },
        Some(("triton", name)) => match name {
            "file" => value::path(value).map(Setting::File).map_err(of(name)),
            "log-frequency" => whole(value).map(Setting::LogFrequency).map_err(of(name)),
            _ => Err("triton,file= or triton,log-frequency=".to_owned()),
        },
        Some(("opentelemetry", name)) => match name {
            "url" => {
                // As Triton's own examples have it.
                let bare = !value.contains("://");
                let value = if bare { format!("http://{value}") } else { value.to_owned() };
                value::url(&value).map(|_| Setting::Url(value)).map_err(of(name))
            }
            "resource" => match value.split_once('=') {
                Some((key, value)) if !key.is_empty() => {
                    Ok(Setting::Resource(key.to_owned(), value.to_owned()))
                }
                _ => Err("resource=<key>=<value>".to_owned()),
            },
            "bsp_max_queue_size" => spans(value).map(Setting::MaxQueue).map_err(of(name)),
            "bsp_schedule_delay" => {
                value::milliseconds(value).map(Setting::ScheduleDelay).map_err(of(name))
            }
            "bsp_max_export_batch_size" => spans(value).map(Setting::MaxBatch).map_err(of(name)),
            _ => Err("opentelemetry,url=, resource=, bsp_max_queue_size=, bsp_schedule_delay= or \
                      bsp_max_export_batch_size="
                .to_owned()),
        },
        Some(_) => Err("the mode triton or opentelemetry before the comma".to_owned()),
    }
}

fn level(text: &str) -> Parse<Setting> {
    match &*text.to_ascii_uppercase() {
        "OFF" | "FALSE" => Ok(Setting::Off),
        // The other names are those of Triton's older releases.
        "TIMESTAMPS" | "MIN" | "MAX" | "ON" | "TRUE" => Ok(Setting::Timestamps),
        "TENSORS" => Ok(Setting::Tensors),
        _ => Err("OFF, TIMESTAMPS or TENSORS".to_owned()),
    }
}

fn whole(text: &str) -> Parse<u64> {
    text.parse().map_err(|_| "a whole number from 0".to_owned())
}

/// -1 is any number.
fn count(text: &str) -> Parse<Option<u64>> {
    match text {
        "-1" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| "a whole number from 0, or -1 for all".to_owned()),
    }
}

fn spans(text: &str) -> Parse<usize> {
    value::count(text).map(Into::into)
}

/// The collector: as the command line says, else as the variables of OpenTelemetry do.
fn collector(
    settings: &[Setting],
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Collector {
    let mut variables = Variables { environment, problems, applied: Vec::new() };
    let mut url = variables.read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint).or_else(|| {
        let base = variables.read("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)?;
        Some(format!("{}{TRACES}", base.trim_end_matches('/')))
    });
    let headers = variables
        .read("OTEL_EXPORTER_OTLP_TRACES_HEADERS", headers)
        .or_else(|| variables.read("OTEL_EXPORTER_OTLP_HEADERS", headers))
        .unwrap_or_default();
    let mut resource = variables.read("OTEL_RESOURCE_ATTRIBUTES", pairs).unwrap_or_default();
    if let Some(name) = variables.read("OTEL_SERVICE_NAME", value::text) {
        set(&mut resource, "service.name".to_owned(), name);
    }
    let mut max_queue = variables.read("OTEL_BSP_MAX_QUEUE_SIZE", spans).unwrap_or(2048);
    let mut schedule_delay = variables
        .read("OTEL_BSP_SCHEDULE_DELAY", value::milliseconds)
        .unwrap_or(Duration::from_secs(5));
    let mut max_batch = variables.read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", spans).unwrap_or(512);
    let applied = variables.applied.join(", ");
    if !applied.is_empty() {
        sources.notices.push(Notice::info(format!("traces go by {applied}")));
    }
    for setting in settings {
        match setting {
            Setting::Url(given) => url = Some(given.clone()),
            Setting::Resource(key, value) => set(&mut resource, key.clone(), value.clone()),
            Setting::MaxQueue(spans) => max_queue = *spans,
            Setting::ScheduleDelay(delay) => schedule_delay = *delay,
            Setting::MaxBatch(spans) => max_batch = *spans,
            _ => {}
        }
    }
    if resource.iter().all(|(key, _)| key != "service.name") {
        // Dashboards made for Triton look for it.
        set(&mut resource, "service.name".to_owned(), "triton-inference-server".to_owned());
    }
    let url = url.unwrap_or_else(|| DEFAULT_URL.to_owned());
    // Read before, wherever it came from.
    let (host, port, path) =
        value::url(&url).unwrap_or_else(|_| ("localhost".to_owned(), 4318, TRACES.to_owned()));
    let path = if path.is_empty() { TRACES.to_owned() } else { path };
    let max_batch = max_batch.min(max_queue);
    Collector { url, host, port, path, headers, resource, max_queue, schedule_delay, max_batch }
}

/// Variables of OpenTelemetry, and which of them said something.
struct Variables<'a> {
    environment: &'a dyn Environment,
    problems: &'a mut Vec<String>,
    applied: Vec<&'static str>,
}

impl Variables<'_> {
    fn read<T>(&mut self, name: &'static str, parse: fn(&str) -> Parse<T>) -> Option<T> {
        let text = variable_text(self.environment, name, self.problems)?;
        match parse(&text) {
            Ok(value) => {
                self.applied.push(name);
                Some(value)
            }
            Err(allowed) => {
                // Headers may hold a password.
                let shown = if name.ends_with("HEADERS") { "" } else { &*text };
                self.problems.push(format!("{name}='{shown}' (environment): expected {allowed}"));
                None
            }
        }
    }
}

fn endpoint(text: &str) -> Parse<String> {
    value::url(text).map(|_| text.to_owned())
}

/// `key=value,..`, with what cannot stand there as `%2C`.
fn pairs(text: &str) -> Parse<Vec<(String, String)>> {
    let form = || "<key>=<value>, with commas between several".to_owned();
    let mut pairs = Vec::new();
    for part in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(form)?;
        let (key, value) = (key.trim(), decoded(value.trim()).ok_or_else(form)?);
        if key.is_empty() {
            return Err(form());
        }
        set(&mut pairs, key.to_owned(), value);
    }
    Ok(pairs)
}

/// The same, of what can stand in a header.
fn headers(text: &str) -> Parse<Vec<(String, String)>> {
    let headers = pairs(text)?;
    let token = |it: char| it.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(it);
    let plain = |it: char| it == ' ' || it.is_ascii_graphic();
    let fits =
        |(name, value): &(String, String)| name.chars().all(token) && value.chars().all(plain);
    match headers.iter().all(fits) {
        true => Ok(headers),
        false => Err("headers, as api-key=secret: names and values of plain ASCII".to_owned()),
    }
}

fn set(pairs: &mut Vec<(String, String)>, key: String, value: String) {
    match pairs.iter_mut().find(|it| it.0 == key) {
        Some(pair) => pair.1 = value,
        None => pairs.push((key, value)),
    }
}

/// Undoes percent-encoding; `None` where it is wrong.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = (part.get(..2)?, part.get(2..)?);
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_pairs_and_percent_encoded() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expect = vec![pair("a", "1,2"), pair("b", "x=y")];
        assert_eq!(pairs("a=1%2C2, b=x=y,"), Ok(expect));
        for wrong in ["a", "=b", "a=%2", "a=%zz", "a=%ff"] {
            assert!(pairs(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_cannot_end_its_line() {
        assert!(headers("api-key=a%0D%0Ax:y").is_err());
        assert!(headers("a b=c").is_err());
        assert_eq!(headers("api-key=a b"), Ok(vec![("api-key".into(), "a b".into())]));
    }
}
