//! Texts → values. An error says what is allowed, and nothing else: the caller knows the setting and the
//! text that was given.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroUsize,
    path::PathBuf,
    time::Duration,
};

use super::{
    hosting::PingMode,
    server::{BackendSetting, GpuLimit, LogFormat, QueueWait},
};

pub(super) type Parse<T> = Result<T, String>;

/// The one key of `--backend-config` that the server reads itself.
pub(super) const DEFAULT_MAX_BATCH_SIZE: &str = "default-max-batch-size";

/// Sums of durations must not overflow; nobody waits for a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

pub(super) fn boolean(text: &str) -> Parse<bool> {
    match &*text.to_ascii_lowercase() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// Triton's `--log-verbose`: a number, or a boolean.
pub(super) fn verbosity(text: &str) -> Parse<u32> {
    let number = text.parse().ok().or_else(|| boolean(text).ok().map(u32::from));
    number.ok_or_else(|| "a number from 0, or true or false".to_owned())
}

pub(super) fn port(text: &str) -> Parse<u16> {
    text.parse().map_err(|_| "a port, 0..65535 (0 takes any free one)".to_owned())
}

pub(super) fn address(text: &str) -> Parse<IpAddr> {
    let text = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text.parse().map_err(|_| "an IP address, as 0.0.0.0, ::1 or localhost".to_owned()),
    }
}

/// `http://host[:port][/path]` → host, port, path. An IPv6 host has brackets, which are taken off; the path
/// is empty where there is none.
pub(super) fn url(text: &str) -> Parse<(String, u16, String)> {
    let found = text.strip_prefix("http://").and_then(|it| location(it, 80));
    found.ok_or_else(|| "http://<host>[:<port>][/<path>]".to_owned())
}

/// The same, or `https`, which the first part is true for.
pub(super) fn any_url(text: &str) -> Parse<(bool, (String, u16, String))> {
    let tls = text.strip_prefix("https://").and_then(|it| location(it, 443));
    let found = tls.map(|it| (true, it)).or_else(|| url(text).ok().map(|it| (false, it)));
    found.ok_or_else(|| "http://<host>[:<port>][/<path>], or https".to_owned())
}

fn location(rest: &str, usual_port: u16) -> Option<(String, u16, String)> {
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = match authority.strip_prefix('[') {
        Some(it) => it.split_once(']').map(|(host, port)| (host, port.strip_prefix(':')))?,
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Ok(usual_port), str::parse).ok()?;
    let plain = !host.is_empty() && rest.chars().all(|it| it.is_ascii_graphic());
    plain.then(|| (host.to_owned(), port, path.to_owned()))
}

/// `lowest-highest`, both included.
pub(super) fn port_range(text: &str) -> Parse<(u16, u16)> {
    let range = text.split_once('-').and_then(|(low, high)| {
        let (low, high): (u16, u16) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (1 <= low && low <= high).then_some((low, high))
    });
    range.ok_or_else(|| "two ports, as 9000-9999, the lower one first".to_owned())
}

/// What can stand in an address between two slashes.
pub(super) fn model_name(text: &str) -> Parse<String> {
    match text.is_empty() || text.contains('/') {
        true => Err("a name that is not empty and has no '/'".to_owned()),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn text(text: &str) -> Parse<String> {
    match text {
        "" => Err("a text that is not empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// An address on a port, as `/predict`.
pub(super) fn route(text: &str) -> Parse<String> {
    let fits = text.starts_with('/') && !text.contains(['?', '#', ' ']);
    fits.then(|| text.to_owned()).ok_or_else(|| "an address such as /predict".to_owned())
}

pub(super) fn path(text: &str) -> Parse<PathBuf> {
    match text {
        "" => Err("a path".to_owned()),
        text => Ok(text.into()),
    }
}

/// A media type, or several with commas, as in the header `Accept`.
pub(super) fn media_type(text: &str) -> Parse<String> {
    let plain = |it: char| it.is_ascii_graphic() || it == ' ';
    let good = text.split(',').all(|it| {
        it.trim()
            .split_once('/')
            .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty() && it.chars().all(plain))
    });
    if good { Ok(text.to_owned()) } else { Err("a media type, as application/json".to_owned()) }
}

/// `0:0.9`, or `0.9` for every GPU.
pub(super) fn gpu_limit(text: &str) -> Parse<GpuLimit> {
    let (gpu, fraction) = match text.split_once(':') {
        Some((gpu, fraction)) => (gpu.parse().ok().map(Some), fraction),
        None => (Some(None), text),
    };
    let fraction = fraction.parse().ok().filter(|it| (0.0..=1.0).contains(it));
    let limit = gpu.zip(fraction).map(|(gpu, fraction)| GpuLimit { gpu, fraction });
    limit.ok_or_else(|| "[<GPU>:]<fraction>, as 0:0.9, the fraction from 0 to 1".to_owned())
}

pub(super) fn count(text: &str) -> Parse<NonZeroUsize> {
    text.parse().map_err(|_| "a whole number from 1".to_owned())
}

/// A number, where 0 and `auto` leave it to the server.
pub(super) fn count_or_auto(text: &str) -> Parse<Option<NonZeroUsize>> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let number: usize =
        text.parse().map_err(|_| "a whole number from 1, or auto (also 0)".to_owned())?;
    Ok(NonZeroUsize::new(number))
}

pub(super) fn number(text: &str) -> Parse<usize> {
    text.parse().map_err(|_| "a whole number from 0".to_owned())
}

/// Bytes: `67108864`, `64MiB`, `64M`. K, M and G count in 1024.
pub(super) fn bytes(text: &str) -> Parse<u64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit: Option<u64> = match lower.get(digits.len()..).unwrap_or_default() {
        "" | "b" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        _ => None,
    };
    let number: Option<u64> = digits.trim().parse().ok();
    let size = unit.zip(number).and_then(|(unit, number)| number.checked_mul(unit));
    size.ok_or_else(|| "a number of bytes, as 67108864, 64MiB or 1GiB".to_owned())
}

/// As [`bytes`], and not 0.
pub(super) fn bytes_from_one(text: &str) -> Parse<u64> {
    match bytes(text)? {
        0 => Err("a number of bytes from 1".to_owned()),
        size => Ok(size),
    }
}

pub(super) fn seconds(text: &str) -> Parse<Duration> {
    let seconds = text.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    seconds
        .filter(|&it| it <= LONGEST)
        .ok_or_else(|| "a number of seconds, from 0 to a year".to_owned())
}

/// As [`seconds`], and not 0.
pub(super) fn seconds_above_zero(text: &str) -> Parse<Duration> {
    match seconds(text)? {
        Duration::ZERO => Err("a number of seconds above 0".to_owned()),
        time => Ok(time),
    }
}

pub(super) fn milliseconds(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_millis).filter(|&it| it <= LONGEST);
    time.ok_or_else(|| "a whole number of milliseconds, at most a year".to_owned())
}

/// As [`milliseconds`]; 0 and `none` are no limit.
pub(super) fn milliseconds_or_none(text: &str) -> Parse<Option<Duration>> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let time = milliseconds(text).map_err(|it| format!("{it}, or none"))?;
    Ok(Some(time).filter(|it| !it.is_zero()))
}

pub(super) fn microseconds(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_micros).filter(|&it| it <= LONGEST);
    time.ok_or_else(|| "a whole number of microseconds, at most a year".to_owned())
}

/// As [`seconds`]; 0 and `none` are no limit.
pub(super) fn seconds_or_none(text: &str) -> Parse<Option<Duration>> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let time = seconds(text).map_err(|it| format!("{it}, or none"))?;
    Ok(Some(time).filter(|it| !it.is_zero()))
}

/// A part of a whole that is not the whole.
pub(super) fn margin(text: &str) -> Parse<f64> {
    let part = text.parse().ok().filter(|it| (0.0..1.0).contains(it));
    part.ok_or_else(|| "a number from 0 to below 1, as 0.2".to_owned())
}

/// What fits into `max_batch_size`.
pub(super) fn batch_size(text: &str) -> Parse<usize> {
    let size = text.parse().ok().filter(|&it| i32::try_from(it).is_ok());
    size.ok_or_else(|| format!("a whole number from 0 to {}", i32::MAX))
}

pub(super) fn ping_mode(text: &str) -> Parse<PingMode> {
    match &*text.to_ascii_lowercase() {
        "ready" => Ok(PingMode::Ready),
        "live" => Ok(PingMode::Live),
        _ => Err("ready or live".to_owned()),
    }
}

pub(super) fn queue_wait(text: &str) -> Parse<QueueWait> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(QueueWait::Auto);
    }
    match milliseconds(text) {
        Ok(Duration::ZERO) => Ok(QueueWait::Unbounded),
        Ok(time) => Ok(QueueWait::AtMost(time)),
        Err(_) => Err("auto, 0 for any wait, or a whole number of milliseconds".to_owned()),
    }
}

/// `auto` → true, `off` → false.
pub(super) fn caller_runs(text: &str) -> Parse<bool> {
    match &*text.to_ascii_lowercase() {
        "auto" => Ok(true),
        "off" => Ok(false),
        _ => Err("auto or off".to_owned()),
    }
}

/// How long a worker may look for work: no longer than a turn of the system's scheduler.
pub(super) fn spin(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_micros);
    time.filter(|it| *it <= Duration::from_millis(1))
        .ok_or_else(|| "a whole number of microseconds from 0 to 1000".to_owned())
}

pub(super) fn log_format(text: &str) -> Parse<LogFormat> {
    LogFormat::named(text).ok_or_else(|| "text, json, default or ISO8601".to_owned())
}

/// `--model-control-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum ModeWord {
    #[default]
    None,
    Poll,
    Explicit,
}

pub(super) fn control_mode(text: &str) -> Parse<ModeWord> {
    match &*text.to_ascii_lowercase() {
        "none" => Ok(ModeWord::None),
        "poll" => Ok(ModeWord::Poll),
        "explicit" => Ok(ModeWord::Explicit),
        _ => Err("none, poll or explicit".to_owned()),
    }
}

/// `[<backend>,]<key>=<value>`.
pub(super) fn backend_setting(text: &str) -> Parse<BackendSetting> {
    let form = || "[<backend>,]<key>=<value>, as default-max-batch-size=8".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    let (backend, key) = match name.split_once(',') {
        Some((backend, key)) => (Some(backend.to_owned()), key),
        None => (None, name),
    };
    if key.is_empty() || backend.as_deref() == Some("") {
        return Err(form());
    }
    if key == DEFAULT_MAX_BATCH_SIZE && value.parse::<u32>().is_err() {
        return Err(format!("a whole number from 0 for {key}"));
    }
    Ok(BackendSetting { backend, key: key.to_owned(), value: value.to_owned() })
}
