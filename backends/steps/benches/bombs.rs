//! What it costs to refuse images and sounds that lie about themselves: `cargo bench -p backend-steps --bench bombs`.
//!
//! Each line is the median processor time of 25 refusals, and the most memory that one of them has held beside the
//! file; of an image, which both decoders of JPEG refuse, the larger of the two. The program fails where a refusal
//! takes more than 5 ms or 1 MB.

#[path = "../../image/tests/bombs/mod.rs"]
mod images;
#[path = "../../audio/tests/bombs/mod.rs"]
mod sounds;

use std::{fmt::Display, path::Path, process::ExitCode, time::Duration};

use allocation_counter::measure;
use image::{Decoder, JpegLibrary};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 25;

/// Most processor time of a refusal.
const MOST_TIME: Duration = Duration::from_millis(5);
/// Most bytes that a refusal holds beside the file.
const MOST_BYTES: u64 = 1_000_000;

const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/golden/files");
const SOUNDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/pipelines/sounds");

/// What this thread has computed so far. Other processes do not count.
fn computed() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The median time of refusals, of which this is said, and the most bytes that one has held.
fn cost<E: Display>(said: &str, refuse: impl Fn() -> Option<E>) -> (Duration, u64) {
    let round = |_| {
        let (begin, mut error) = (computed(), None);
        let bytes = measure(|| error = refuse()).bytes_max;
        let took = computed() - begin;
        let text = error.map_or_else(String::new, |it| it.to_string());
        assert!(text.contains(said), "'{text}' does not say '{said}'");
        (took, bytes)
    };
    let (mut times, bytes): (Vec<Duration>, Vec<u64>) = (0..ROUNDS).map(round).unzip();
    times.sort();
    (times[ROUNDS / 2], bytes.into_iter().max().unwrap_or(0))
}

/// Prints a line; is it within the bounds?
fn is_cheap(name: &str, size: usize, (time, bytes): (Duration, u64)) -> bool {
    let is_cheap = time <= MOST_TIME && bytes <= MOST_BYTES;
    let (micros, kilobytes) = (time.as_secs_f64() * 1e6, bytes as f64 / 1e3);
    let verdict = if is_cheap { "" } else { "  TOO DEAR" };
    println!("{name:<44} {size:>9} bytes {micros:>9.1} µs {kilobytes:>8.1} KB{verdict}");
    is_cheap
}

fn main() -> ExitCode {
    let mut dear = 0;
    let decoders = [JpegLibrary::Auto, JpegLibrary::None]
        .map(|it| Decoder::open(&it).expect("no library is named"));
    for bomb in images::bombs(Path::new(IMAGES)) {
        let [one, other] = decoders.each_ref().map(|decoder| {
            cost(bomb.refused, || decoder.decode(&bomb.bytes, &image::Limits::default()).err())
        });
        let dearest = (one.0.max(other.0), one.1.max(other.1));
        dear += usize::from(!is_cheap(bomb.name, bomb.bytes.len(), dearest));
    }
    for bomb in sounds::bombs(Path::new(SOUNDS)) {
        let refuse = || audio::inspect(&bomb.bytes, &audio::Limits::default()).err();
        dear += usize::from(!is_cheap(bomb.name, bomb.bytes.len(), cost(bomb.refused, refuse)));
    }
    match dear {
        0 => ExitCode::SUCCESS,
        dear => {
            println!("{dear} refusals take more than {MOST_TIME:?} or {MOST_BYTES} bytes");
            ExitCode::FAILURE
        }
    }
}
