//! Traces as Triton writes them: arrays of JSON, in one file or in files of so many traces.

use std::{
    fmt::Write as _,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use backend::{DataType, Tensor};
use half::{bf16, f16};
use rustix::time::{ClockId, clock_gettime};

use super::{
    outlet::Sink,
    record::{Activity, Finished},
};

/// Text that is collected before it is written. Held between two requests only: it is written when nothing waits.
const CHUNK: usize = 256 << 10;

/// The files.
pub(super) struct TraceFiles {
    path: PathBuf,
    clock: Clock,
    /// The one for traces that are not counted.
    main: Option<ArrayFile>,
    /// The one of so many traces that is being filled.
    counted: Option<ArrayFile>,
    /// The number of the next one.
    next: u64,
    /// Files cannot be written, and the log knows.
    complained: bool,
    lost: u64,
}

impl TraceFiles {
    /// Nothing is opened yet.
    pub(super) fn new(path: PathBuf) -> TraceFiles {
        TraceFiles {
            path,
            clock: Clock::new(),
            main: None,
            counted: None,
            next: 0,
            complained: false,
            lost: 0,
        }
    }

    /// Can the first file be written? Makes it.
    pub(super) fn check(&self, log_frequency: u64) -> io::Result<()> {
        File::create(self.path_of(if log_frequency == 0 { None } else { Some(0) })).map(|_| ())
    }

    fn path_of(&self, number: Option<u64>) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        if let Some(number) = number {
            path.push(format!(".{number}"));
        }
        path.into()
    }

    /// Was something written to a file?
    fn write(&mut self, trace: &Finished) -> io::Result<bool> {
        let frequency = trace.sampled.log_frequency;
        let number = (frequency != 0).then_some(self.next);
        let path = self.path_of(number);
        let place = if number.is_some() { &mut self.counted } else { &mut self.main };
        let file = match place {
            Some(file) => file,
            None => place.insert(ArrayFile::create(&path)?),
        };
        let text = file.begin();
        write_trace(text, trace, &self.clock);
        let complete = number.is_some() && frequency <= file.traces;
        if !complete && file.text.len() <= CHUNK {
            return Ok(false);
        }
        let written = file.flush();
        if complete {
            self.counted = None;
            self.next += 1;
        }
        written
    }

    fn done(&mut self, outcome: io::Result<bool>) {
        let error = match outcome {
            Ok(written) => {
                self.complained &= !written;
                return;
            }
            Err(error) => error,
        };
        self.lost += 1;
        if !self.complained {
            self.complained = true;
            let path = self.path.display();
            tracing::error!(%path, %error, "traces cannot be written");
        }
    }
}

impl Sink for TraceFiles {
    fn take(&mut self, trace: Finished) {
        let outcome = self.write(&trace);
        self.done(outcome);
    }

    fn work(&mut self, _: Instant) -> Option<Duration> {
        self.flush();
        None
    }

    fn flush(&mut self) {
        let files = [&mut self.main, &mut self.counted];
        let outcomes = files.map(|it| it.as_mut().map_or(Ok(false), ArrayFile::flush));
        outcomes.into_iter().for_each(|it| self.done(it));
    }

    fn lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// A file that holds a whole array whenever nothing is being written: its end is written over by what comes next.
struct ArrayFile {
    file: File,
    /// Where the closing bracket is.
    end: u64,
    traces: u64,
    /// Not yet written.
    text: String,
}

impl ArrayFile {
    fn create(path: &std::path::Path) -> io::Result<ArrayFile> {
        let file = File::create(path)?;
        file.write_all_at(b"[]\n", 0)?;
        Ok(ArrayFile { file, end: 1, traces: 0, text: String::new() })
    }

    /// Where one more trace is to be written, with a comma between its objects and none behind.
    fn begin(&mut self) -> &mut String {
        if 0 < self.traces {
            self.text.push_str(",\n");
        }
        self.traces += 1;
        &mut self.text
    }

    /// Was there something to write?
    fn flush(&mut self) -> io::Result<bool> {
        if self.text.is_empty() {
            return Ok(false);
        }
        let length = self.text.len() as u64;
        self.text.push_str("]\n");
        let written = self.file.write_all_at(self.text.as_bytes(), self.end);
        self.text.clear();
        written?;
        self.end += length;
        Ok(true)
    }
}

/// The nanoseconds of the monotonic clock, which an `Instant` does not show.
pub(super) struct Clock {
    instant: Instant,
    ns: u64,
}

impl Clock {
    fn new() -> Clock {
        let now = clock_gettime(ClockId::Monotonic);
        let (seconds, ns) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
        Clock { instant: Instant::now(), ns: seconds * 1_000_000_000 + ns }
    }

    fn ns(&self, at: Instant) -> u64 {
        let after = at.saturating_duration_since(self.instant).as_nanos() as u64;
        let before = self.instant.saturating_duration_since(at).as_nanos() as u64;
        (self.ns + after).saturating_sub(before)
    }
}

/// The objects of one trace.
fn write_trace(text: &mut String, trace: &Finished, clock: &Clock) {
    let Finished { sampled, record } = trace;
    let id = sampled.id;
    // Writing to a string cannot fail.
    let _ = write!(text, "{{\"id\":{id},\"model_name\":");
    quote(text, &record.model);
    let _ = write!(text, ",\"model_version\":{}", record.version);
    if let Some(signature) = &record.signature {
        text.push_str(",\"signature_name\":");
        quote(text, signature);
    }
    if let Some(request_id) = record.name() {
        text.push_str(",\"request_id\":");
        quote(text, request_id);
    }
    if let Some(parent) = sampled.parent_id {
        let _ = write!(text, ",\"parent_id\":{parent}");
    }
    text.push('}');
    if sampled.levels.timestamps {
        let _ = write!(text, ",\n{{\"id\":{id},\"timestamps\":[");
        for (number, (moment, at)) in record.stamps.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let (name, ns) = (moment.name(record.transport), clock.ns(*at));
            let _ = write!(text, "{comma}{{\"name\":\"{name}\",\"ns\":{ns}}}");
        }
        text.push_str("]}");
    }
    if sampled.levels.tensors {
        for (activity, it) in &record.tensors {
            let activity = match activity {
                Activity::QueueInput => "TENSOR_QUEUE_INPUT",
                Activity::BackendInput => "TENSOR_BACKEND_INPUT",
                Activity::BackendOutput => "TENSOR_BACKEND_OUTPUT",
            };
            let _ =
                write!(text, ",\n{{\"id\":{id},\"activity\":\"{activity}\",\"tensor\":{{\"name\":");
            quote(text, &it.name);
            text.push_str(",\"data\":");
            let mut data = String::new();
            write_elements(&mut data, &it.tensor);
            quote(text, &data);
            let dims = it.tensor.shape().dims().iter().map(usize::to_string);
            let shape = dims.collect::<Vec<_>>().join(",");
            let dtype = it.tensor.dtype().name();
            let _ = write!(text, ",\"shape\":\"{shape}\",\"dtype\":\"{dtype}\"}}}}");
        }
    }
}

/// All elements with commas between; those that are strings as they are, as far as they are UTF-8.
fn write_elements(text: &mut String, tensor: &Tensor) {
    fn list<T: std::fmt::Display, const SIZE: usize>(
        text: &mut String,
        bytes: &[u8],
        read: fn([u8; SIZE]) -> T,
    ) {
        for (number, element) in bytes.as_chunks::<SIZE>().0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let _ = write!(text, "{comma}{}", read(*element));
        }
    }
    if tensor.dtype() == DataType::Bytes {
        for (number, element) in tensor.strings().enumerate() {
            text.push_str(if number == 0 { "" } else { "," });
            text.push_str(&String::from_utf8_lossy(element));
        }
        return;
    }
    let bytes = tensor.to_bytes();
    match tensor.dtype() {
        DataType::Bool | DataType::Uint8 => list(text, &bytes, u8::from_le_bytes),
        DataType::Uint16 => list(text, &bytes, u16::from_le_bytes),
        DataType::Uint32 => list(text, &bytes, u32::from_le_bytes),
        DataType::Uint64 => list(text, &bytes, u64::from_le_bytes),
        DataType::Int8 => list(text, &bytes, i8::from_le_bytes),
        DataType::Int16 => list(text, &bytes, i16::from_le_bytes),
        DataType::Int32 => list(text, &bytes, i32::from_le_bytes),
        DataType::Int64 => list(text, &bytes, i64::from_le_bytes),
        DataType::Fp16 => list(text, &bytes, f16::from_le_bytes),
        DataType::Bf16 => list(text, &bytes, bf16::from_le_bytes),
        DataType::Fp32 => list(text, &bytes, f32::from_le_bytes),
        DataType::Fp64 => list(text, &bytes, f64::from_le_bytes),
        DataType::Bytes => {}
    }
}

/// A JSON string.
fn quote(text: &mut String, value: &str) {
    text.push('"');
    for letter in value.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            _ if letter.is_control() => {
                let _ = write!(text, "\\u{:04x}", u32::from(letter));
            }
            _ => text.push(letter),
        }
    }
    text.push('"');
}
