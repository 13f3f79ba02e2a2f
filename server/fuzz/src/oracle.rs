//! What must hold for every input: memory within what was asked for, and time in proportion to the input.

use std::time::Duration;

use allocation_counter::measure;
use formats::expansion::Limit;
use inference::grant::Grant;
use rustix::time::{ClockId, clock_gettime};

use crate::{seen::Seen, targets::Target};

/// Bytes that stand for the text of an error, and for what a lone small request takes.
const SMALL: u64 = 4 << 10;

/// Processor time that any input may take. Other programs may run on this machine.
const FREE_TIME: Duration = Duration::from_millis(20);

/// Processor time for each byte of the input, with the checks of a debug build. Text takes a tenth of it.
const TIME_OF_A_BYTE: Duration = Duration::from_micros(1);

/// Bytes of memory for which there is as much time as for a byte of the input.
const ALLOCATED: u64 = 64;

/// Bounds of at most so many bytes may be rough.
pub const LOOSE: usize = 64 << 10;

/// How often an input is tried again that took too long.
const TRIES: usize = 3;

/// Runs a target on an input.
///
/// # Panics
/// Where the decoder panics, or takes more memory or time than is promised.
pub fn run(target: &Target, data: &[u8]) -> Seen {
    let mut tries = 0;
    loop {
        let mut seen = None;
        let began = processor_time();
        let allocated = measure(|| seen = Some((target.decode)(data))).bytes_total;
        let took = processor_time().saturating_sub(began);
        let bytes = data.len() as u64 + allocated / ALLOCATED;
        let most = FREE_TIME + TIME_OF_A_BYTE * u32::try_from(bytes).unwrap_or(u32::MAX);
        if let Some(seen) = seen.filter(|_| took <= most) {
            return seen;
        }
        tries += 1;
        assert!(
            tries < TRIES,
            "{}: {took:?} for {} bytes, of which {allocated} bytes were allocated; expected at most {most:?}",
            target.name,
            data.len()
        );
    }
}

/// Decodes with what is granted. The input may take so many bytes `beside`, for which nothing is asked.
///
/// # Panics
/// Where it takes more.
pub fn within_grant<T>(beside: usize, decode: impl FnOnce(&Grant) -> T) -> T {
    let grant = Grant::all(LOOSE);
    let (decoded, most) = measured(|| decode(&grant));
    let granted = grant.granted();
    let bound = granted.saturating_add(beside) as u64 + SMALL;
    assert!(most <= bound, "takes {most} bytes, {granted} were granted");
    decoded
}

/// Decodes where the caller has asked the byte budget for `asked` bytes beside the body.
///
/// # Panics
/// Where it takes more.
pub fn within_asked<T>(asked: usize, decode: impl FnOnce() -> T) -> T {
    let (decoded, most) = measured(decode);
    assert!(most <= asked as u64 + SMALL, "takes {most} bytes, {asked} were asked for");
    decoded
}

/// Decodes an input of `sent` bytes for which nothing is asked.
///
/// # Panics
/// Where it takes more than the limit allows.
pub fn within<T>(limit: Limit, sent: usize, decode: impl FnOnce() -> T) -> T {
    let (decoded, most) = measured(decode);
    let bound = limit.bytes(sent);
    assert!(most <= bound as u64, "{sent} bytes take {most} bytes, expected at most {bound}");
    decoded
}

fn measured<T>(decode: impl FnOnce() -> T) -> (T, u64) {
    let mut decoded = None;
    let most = measure(|| decoded = Some(decode())).bytes_max;
    (decoded.expect("it has run"), most)
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}
