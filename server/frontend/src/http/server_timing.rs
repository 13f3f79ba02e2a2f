//! The header `Server-Timing` of a reply: where the time of its request went, in milliseconds. Pure.

use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};

use inference::timings::Spent;

/// The header, by the standard of that name of W3C.
pub const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The value of the header. `total` is the time from the first byte of the request's head to its reply.
pub fn value(spent: Option<Spent>, total: Duration) -> HeaderValue {
    let mut line = Line { text: [0; LONGEST], length: 0 };
    if let Some(Spent { queue, compute }) = spent {
        line.text(b"queue;dur=");
        line.milliseconds(queue);
        line.text(b", compute;dur=");
        line.milliseconds(compute);
        line.text(b", ");
    }
    line.text(b"total;dur=");
    line.milliseconds(total);
    let text = line.text.get(..line.length).unwrap_or_default();
    HeaderValue::from_bytes(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A time is 24 characters at most, and what is around the three of them is 36.
const LONGEST: usize = 108;

/// A line on the stack: every reply has one, and formatting by the standard library takes several times as long.
struct Line {
    text: [u8; LONGEST],
    length: usize,
}

impl Line {
    fn text(&mut self, part: &[u8]) {
        let end = self.length + part.len();
        if let Some(place) = self.text.get_mut(self.length..end) {
            place.copy_from_slice(part);
            self.length = end;
        }
    }

    /// Three digits behind the point are microseconds.
    fn milliseconds(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (mut digits, mut at, mut left) = ([b'0'; 24], 24, micros);
        // At least one in front of the point, and three behind it.
        while 0 < left || 20 <= at {
            at -= 1;
            if at == 20 {
                digits[at] = b'.';
                continue;
            }
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        self.text(&digits[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spent: Option<(u64, u64)>, total: u64, expect: &str) {
        let micros = Duration::from_micros;
        let spent = spent.map(|it| Spent { queue: micros(it.0), compute: micros(it.1) });
        assert_eq!(value(spent, micros(total)), expect);
    }

    #[test]
    fn times_are_milliseconds_with_three_digits_behind_the_point() {
        check(None, 0, "total;dur=0.000");
        check(None, 7, "total;dur=0.007");
        check(None, 999, "total;dur=0.999");
        check(None, 1000, "total;dur=1.000");
        check(None, 60_012_345, "total;dur=60012.345");
        let of_run = "queue;dur=0.012, compute;dur=1.234, total;dur=1.400";
        check(Some((12, 1234)), 1400, of_run);
        check(Some((0, 10)), 100, "queue;dur=0.000, compute;dur=0.010, total;dur=0.100");
    }

    #[test]
    fn the_longest_times_have_room() {
        let most = "18446744073709551.615";
        let spent = Spent { queue: Duration::MAX, compute: Duration::MAX };
        let expect = format!("queue;dur={most}, compute;dur={most}, total;dur={most}");
        assert_eq!(value(Some(spent), Duration::MAX), expect.as_str());
    }
}
