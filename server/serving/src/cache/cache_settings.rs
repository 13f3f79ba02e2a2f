//! Where answers are kept: `--cache-config` and what Triton had before it.

use std::{fmt, num::NonZeroUsize, time::Duration};

use configuration::{Environment, Flag, Given, Sources, value, variable_text};
use inference::signature::nearest;

/// The flags of this part.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    Flag::many("cache-config", "<cache>,<key>=<value>, as local,size=64MiB, or redis,host=<host> with further keys each in a flag of its own: port, user, password, db, connect_timeout, socket_timeout, pool_size, wait_timeout").named("CACHE,KEY=VALUE"),
    Flag::value("response-cache-byte-size", "", "Older form of --cache-config local,size=<bytes>").named("BYTES"),
];

/// Where answers are kept.
#[derive(Debug, Clone, PartialEq)]
pub enum CacheSettings {
    /// In this process.
    Local {
        /// Bytes, at least 1.
        size: u64,
    },
    /// In a Redis server.
    Redis(RedisSettings),
}

/// How Redis is reached, and how long anybody waits for it. No time is without an end.
#[derive(Debug, Clone, PartialEq)]
pub struct RedisSettings {
    /// Name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Who logs in; `None` for Redis's default user.
    pub user: Option<String>,
    /// `None` for no login.
    pub password: Option<Secret>,
    /// Number of the database.
    pub db: u32,
    /// Longest time for connecting and logging in.
    pub connect_timeout: Duration,
    /// Longest time for an answer.
    pub socket_timeout: Duration,
    /// Most connections.
    pub pool_size: NonZeroUsize,
    /// Longest time for a connection that others use.
    pub wait_timeout: Duration,
}

/// A text that is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

const CACHES: [&str; 2] = ["local", "redis"];

const LOCAL_KEYS: [&str; 1] = ["size"];

const REDIS_KEYS: [&str; 9] = [
    "host",
    "port",
    "user",
    "password",
    "db",
    "connect_timeout",
    "socket_timeout",
    "pool_size",
    "wait_timeout",
];

/// Triton's variables for what should not be on a command line.
const USER_VARIABLE: &str = "TRITONCACHE_REDIS_USERNAME";
const PASSWORD_VARIABLE: &str = "TRITONCACHE_REDIS_PASSWORD";

const FORM: &str = "<cache>,<key>=<value>, as local,size=67108864 or redis,host=localhost";

/// One `--cache-config`: cache, key, value, and where it was given.
struct CacheSetting<'a> {
    cache: &'a str,
    key: &'a str,
    value: &'a str,
    given: &'a Given,
}

impl CacheSetting<'_> {
    /// What is wrong with it. The value of a password is not shown.
    fn problem(&self, expected: &str) -> String {
        format!("{}: expected {expected}", shown(self.given))
    }

    fn read<T>(
        &self,
        parse: impl FnOnce(&str) -> value::Parse<T>,
        problems: &mut Vec<String>,
    ) -> Option<T> {
        parse(self.value)
            .map_err(|expected| {
                problems.push(self.problem(&format!("{expected} for {}", self.key)))
            })
            .ok()
    }
}

/// The text as it was given, without a password.
fn shown(given: &Given) -> String {
    let text = given.to_string();
    match given.text.split_once("password=") {
        Some((_, secret)) if !secret.is_empty() => text.replace(secret, "***"),
        _ => text,
    }
}

/// Reads it.
pub fn resolve(
    sources: &mut Sources,
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<CacheSettings> {
    let given = sources.all("cache-config").to_vec();
    let before = problems.len();
    let parts: Vec<CacheSetting<'_>> = given.iter().filter_map(|it| part(it, problems)).collect();
    let older = sources.read("response-cache-byte-size", value::bytes, problems);
    if let (Some(_), Some(older), Some(first)) =
        (older, sources.last("response-cache-byte-size"), given.first())
    {
        problems.push(format!(
            "{older}: is an older form of --cache-config local,size=<bytes>; expected one of them, also given: {}",
            shown(first)
        ));
    }
    if before < problems.len() {
        return None;
    }
    if let Some(size) = older {
        return (size > 0).then_some(CacheSettings::Local { size });
    }
    let first = parts.first()?;
    if let Some(other) = parts.iter().find(|it| it.cache != first.cache) {
        problems.push(format!(
            "{}: expected a single cache, also given: {}",
            shown(other.given),
            shown(first.given)
        ));
        return None;
    }
    match first.cache {
        "local" => local(&parts, problems),
        _ => redis(&parts, environment, problems),
    }
}

/// Parses one.
fn part<'a>(given: &'a Given, problems: &mut Vec<String>) -> Option<CacheSetting<'a>> {
    let mut problem = |expected: String| {
        problems.push(format!("{}: expected {expected}", shown(given)));
        None
    };
    let parts = given.text.split_once(',').and_then(|(cache, setting)| {
        let (key, value) = setting.split_once('=')?;
        Some((cache.trim(), key.trim(), value.trim()))
    });
    let Some((cache, key, value)) = parts else { return problem(FORM.to_owned()) };
    let keys: &[&str] = match cache {
        "local" => &LOCAL_KEYS,
        "redis" => &REDIS_KEYS,
        _ => {
            return problem(format!(
                "one of the caches {}{}",
                CACHES.join(", "),
                hint(cache, &CACHES)
            ));
        }
    };
    if !keys.contains(&key) {
        let hint = hint(key, keys);
        return problem(format!("one of the keys of {cache}: {}{hint}", keys.join(", ")));
    }
    Some(CacheSetting { cache, key, value, given })
}

fn hint(given: &str, known: &[&str]) -> String {
    let near = nearest(given, known.iter().copied());
    near.map(|it| format!("; did you mean '{it}'?")).unwrap_or_default()
}

/// The last one of each key counts.
fn local(parts: &[CacheSetting<'_>], problems: &mut Vec<String>) -> Option<CacheSettings> {
    let size = parts.last()?.read(value::bytes, problems)?;
    // As in Triton: a cache of nothing is none.
    (size > 0).then_some(CacheSettings::Local { size })
}

fn redis(
    parts: &[CacheSetting<'_>],
    environment: &dyn Environment,
    problems: &mut Vec<String>,
) -> Option<CacheSettings> {
    let last = |key: &str| parts.iter().rev().find(|it| it.key == key);
    let text = |key: &str, problems: &mut Vec<String>| {
        last(key).and_then(|it| it.read(value::text, problems))
    };
    let before = problems.len();
    let host = text("host", problems);
    if last("host").is_none() {
        problems.push("--cache-config redis: expected redis,host=<name or address>".to_owned());
    }
    let port = match last("port") {
        Some(it) => it.read(|it| it.parse().map_err(|_| "a port".to_owned()), problems)?,
        None => 6379,
    };
    // Triton's 0 waits for ever, which no request should: it is the default here.
    let mut time = |key: &str, default: u64| {
        let given = last(key).and_then(|it| it.read(value::milliseconds, problems));
        given.filter(|it| !it.is_zero()).unwrap_or(Duration::from_millis(default))
    };
    let connect_timeout = time("connect_timeout", 100);
    let socket_timeout = time("socket_timeout", 50);
    let wait_timeout = time("wait_timeout", 10);
    let pool_size = last("pool_size").and_then(|it| it.read(value::threads, problems));
    let db = last("db").and_then(|it| {
        it.read(|it| it.parse().map_err(|_| "a whole number from 0".to_owned()), problems)
    });
    let user =
        text("user", problems).or_else(|| variable_text(environment, USER_VARIABLE, problems));
    let password = last("password").map(|it| it.value.to_owned()).filter(|it| !it.is_empty());
    let password =
        password.or_else(|| variable_text(environment, PASSWORD_VARIABLE, problems)).map(Secret);
    (before == problems.len()).then_some(())?;
    Some(CacheSettings::Redis(RedisSettings {
        host: host?,
        port,
        user,
        password,
        db: db.unwrap_or(0),
        connect_timeout,
        socket_timeout,
        pool_size: pool_size.or(NonZeroUsize::new(16))?,
        wait_timeout,
    }))
}
