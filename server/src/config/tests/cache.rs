//! Facts about the cache of answers: its flags and variables.

use super::*;
use serving::cache::{CacheSettings, RedisSettings};

fn redis(args: &str, variables: &[&str]) -> RedisSettings {
    match config(args, variables).cache {
        Some(CacheSettings::Redis(settings)) => settings,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_size_is_a_cache_in_the_process_and_none_is_none() {
    let local = |size| Some(CacheSettings::Local { size });
    assert_eq!(config("", &[]).cache, None);
    assert_eq!(config("--cache-config=local,size=64MiB", &[]).cache, local(64 << 20));
    assert_eq!(config("--cache-config=local,size=0", &[]).cache, None);
    assert_eq!(config("--response-cache-byte-size=4096", &[]).cache, local(4096));
    assert_eq!(config("", &["MUSTER_CACHE_CONFIG=local,size=1K"]).cache, local(1024));
}

#[test]
fn redis_takes_triton_s_keys_and_waits_for_ever_for_nothing() {
    let args = "--cache-config=redis,host=cache --cache-config redis,port=7000 \
                --cache-config=redis,db=3 --cache-config=redis,socket_timeout=0 \
                --cache-config=redis,pool_size=2";
    let settings = redis(args, &["TRITONCACHE_REDIS_PASSWORD=sesame"]);
    assert_eq!((&*settings.host, settings.port, settings.db), ("cache", 7000, 3));
    assert_eq!(settings.socket_timeout, Duration::from_millis(50));
    assert_eq!(settings.pool_size.get(), 2);
    assert_eq!(settings.password.as_ref().map(|it| it.reveal()), Some("sesame"));
    assert!(!format!("{settings:?}").contains("sesame"));
    let with = format!("{args} --cache-config=redis,password=open");
    let settings = redis(&with, &["TRITONCACHE_REDIS_PASSWORD=sesame"]);
    assert_eq!(settings.password.as_ref().map(|it| it.reveal()), Some("open"));
}

#[test]
fn what_is_wrong_says_what_would_be_right() {
    for (args, expected) in [
        (
            "--cache-config=local",
            "--cache-config 'local' (command line): expected <cache>,<key>=<value>, as local,size=67108864 or \
             redis,host=localhost",
        ),
        (
            "--cache-config=locl,size=1",
            "--cache-config 'locl,size=1' (command line): expected one of the caches local, redis; did you mean \
             'local'?",
        ),
        (
            "--cache-config=local,sise=1",
            "--cache-config 'local,sise=1' (command line): expected one of the keys of local: size; did you mean \
             'size'?",
        ),
        (
            "--cache-config=local,size=x",
            "--cache-config 'local,size=x' (command line): expected a number of bytes, as 67108864, 64MiB or 1GiB \
             for size",
        ),
        (
            "--cache-config=redis,port=1",
            "--cache-config redis: expected redis,host=<name or address>",
        ),
        (
            "--cache-config=local,size=1 --cache-config=redis,password=sesame",
            "--cache-config 'redis,password=***' (command line): expected a single cache, also given: \
             --cache-config 'local,size=1' (command line)",
        ),
        (
            "--cache-config=local,size=1 --response-cache-byte-size=1",
            "--response-cache-byte-size '1' (command line): is an older form of --cache-config \
             local,size=<bytes>; expected one of them, also given: --cache-config 'local,size=1' (command line)",
        ),
    ] {
        assert_eq!(problems(args, &[]), [expected], "{args}");
    }
}
