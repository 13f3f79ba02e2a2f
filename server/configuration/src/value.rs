//! Texts → values. An error says what is allowed, and nothing else: the caller knows the setting and the
//! text that was given.

use std::{
    net::{IpAddr, Ipv4Addr},
    num::NonZeroUsize,
    path::PathBuf,
    time::Duration,
};

/// A value, or what is allowed.
pub type Parse<T> = Result<T, String>;

/// The longest duration, a year: sums of durations do not overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// `true`, `1`, `yes` and `on`, or their opposites, in any case.
pub fn boolean(text: &str) -> Parse<bool> {
    match &*text.to_ascii_lowercase() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// A port.
pub fn port(text: &str) -> Parse<u16> {
    text.parse().map_err(|_| "a port, 0..65535 (0 takes any free one)".to_owned())
}

/// An IP address, perhaps in brackets, or `localhost`.
pub fn address(text: &str) -> Parse<IpAddr> {
    let text = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text.parse().map_err(|_| "an IP address, as 0.0.0.0, ::1 or localhost".to_owned()),
    }
}

/// `http://host[:port][/path]` → host, port, path. An IPv6 host has brackets, which are taken off; the path
/// is empty where there is none.
pub fn url(text: &str) -> Parse<(String, u16, String)> {
    let found = text.strip_prefix("http://").and_then(|it| location(it, 80));
    found.ok_or_else(|| "http://<host>[:<port>][/<path>]".to_owned())
}

/// The same, or `https`, which the first part is true for.
pub fn any_url(text: &str) -> Parse<(bool, (String, u16, String))> {
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

/// A text that is not empty.
pub fn text(text: &str) -> Parse<String> {
    match text {
        "" => Err("a text that is not empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}

/// A path.
pub fn path(text: &str) -> Parse<PathBuf> {
    match text {
        "" => Err("a path".to_owned()),
        text => Ok(text.into()),
    }
}

/// A media type, or several with commas, as in the header `Accept`.
pub fn media_type(text: &str) -> Parse<String> {
    let plain = |it: char| it.is_ascii_graphic() || it == ' ';
    let good = text.split(',').all(|it| {
        it.trim()
            .split_once('/')
            .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty() && it.chars().all(plain))
    });
    if good { Ok(text.to_owned()) } else { Err("a media type, as application/json".to_owned()) }
}

/// A whole number from 1.
pub fn count(text: &str) -> Parse<NonZeroUsize> {
    text.parse().map_err(|_| "a whole number from 1".to_owned())
}

/// Most threads, and most of what has a thread each. The system has room for some thousands, and each takes memory.
const MOST_THREADS: usize = 4096;

/// Most places of a queue, or of what may be held at one time.
const MOST_PLACES: usize = 1 << 30;

/// A number of threads, or of what has a thread each.
pub fn threads(text: &str) -> Parse<NonZeroUsize> {
    let given = count(text).ok().filter(|it| it.get() <= MOST_THREADS);
    given.ok_or_else(|| format!("a whole number from 1 to {MOST_THREADS}"))
}

/// The same, where 0 and `auto` leave it to the server.
pub fn threads_or_auto(text: &str) -> Parse<Option<NonZeroUsize>> {
    let given = count_or_auto(text).ok().filter(|it| it.is_none_or(|it| it.get() <= MOST_THREADS));
    given.ok_or_else(|| format!("a whole number from 1 to {MOST_THREADS}, or auto (also 0)"))
}

/// A number of places.
pub fn places(text: &str) -> Parse<NonZeroUsize> {
    let given = count(text).ok().filter(|it| it.get() <= MOST_PLACES);
    given.ok_or_else(|| format!("a whole number from 1 to {MOST_PLACES}"))
}

/// A number, where 0 and `auto` leave it to the server.
pub fn count_or_auto(text: &str) -> Parse<Option<NonZeroUsize>> {
    if text.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let number: usize =
        text.parse().map_err(|_| "a whole number from 1, or auto (also 0)".to_owned())?;
    Ok(NonZeroUsize::new(number))
}

/// A whole number from 0.
pub fn number(text: &str) -> Parse<usize> {
    text.parse().map_err(|_| "a whole number from 0".to_owned())
}

/// Bytes: `67108864`, `64MiB`, `64M`. K, M and G count in 1024.
pub fn bytes(text: &str) -> Parse<u64> {
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
pub fn bytes_from_one(text: &str) -> Parse<u64> {
    match bytes(text)? {
        0 => Err("a number of bytes from 1".to_owned()),
        size => Ok(size),
    }
}

/// Seconds, with a fraction or without.
pub fn seconds(text: &str) -> Parse<Duration> {
    let seconds = text.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    seconds
        .filter(|&it| it <= LONGEST)
        .ok_or_else(|| "a number of seconds, from 0 to a year".to_owned())
}

/// As [`seconds`], and not 0.
pub fn seconds_above_zero(text: &str) -> Parse<Duration> {
    match seconds(text)? {
        Duration::ZERO => Err("a number of seconds above 0".to_owned()),
        time => Ok(time),
    }
}

/// Whole milliseconds.
pub fn milliseconds(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_millis).filter(|&it| it <= LONGEST);
    time.ok_or_else(|| "a whole number of milliseconds, at most a year".to_owned())
}

/// As [`milliseconds`]; 0 and `none` are no limit.
pub fn milliseconds_or_none(text: &str) -> Parse<Option<Duration>> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let time = milliseconds(text).map_err(|it| format!("{it}, or none"))?;
    Ok(Some(time).filter(|it| !it.is_zero()))
}

/// Whole microseconds.
pub fn microseconds(text: &str) -> Parse<Duration> {
    let time = text.parse().ok().map(Duration::from_micros).filter(|&it| it <= LONGEST);
    time.ok_or_else(|| "a whole number of microseconds, at most a year".to_owned())
}

/// As [`seconds`]; 0 and `none` are no limit.
pub fn seconds_or_none(text: &str) -> Parse<Option<Duration>> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let time = seconds(text).map_err(|it| format!("{it}, or none"))?;
    Ok(Some(time).filter(|it| !it.is_zero()))
}
