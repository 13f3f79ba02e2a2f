//! Data capture: requests to `/invocations`, and to the addresses of other servers of texts, are written down with
//! their replies. SageMaker's data capture does so, and what watches a model's data on the platform finds it here.
//!
//! Requests are chosen by their ids; a thread writes them, behind a bounded queue: where that is full, or memory for it
//! is spent, a record is dropped and counted. No request waits for a disk, and none fails because of one.

pub mod capture_settings;
mod files;
mod line;
mod record;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};

use bytes::Bytes;

pub use capture_settings::CaptureSettings;
use files::Files;
use inference::{
    identifier::new_uuid,
    limits::{Budget, Permit},
    outbox::{Inbox, Outbox, Received, outbox},
};
pub use record::About;
use record::{CapturedBody, Record};

/// Records that wait to be written.
const MOST_WAITING: usize = 1024;

/// Bytes of bodies that wait with them.
const MOST_BYTES: usize = 32 << 20;

/// Records are dropped by the thousand or not at all: one line reports many.
const BETWEEN_REPORTS: Duration = Duration::from_secs(10);

/// Captures some requests. Clones write to the same place.
#[derive(Clone)]
pub struct Capture(Arc<Inner>);

struct Inner {
    config: CaptureSettings,
    queue: Outbox<(Box<Record>, Permit)>,
    /// What bodies in the queue may take.
    room: Arc<Budget>,
    dropped: Arc<AtomicU64>,
}

/// A request that is captured, and has not been answered.
pub struct Captured {
    capture: Capture,
    /// Guards what is known of it so far.
    record: Mutex<Option<(Record, Permit)>>,
}

impl Capture {
    /// Starts the thread that writes. It ends with the last clone.
    ///
    /// # Errors
    /// When the folder cannot be made, or the system refuses a thread.
    pub fn start(config: &CaptureSettings) -> io::Result<Capture> {
        std::fs::create_dir_all(&config.dir)?;
        let (queue, records) = outbox(MOST_WAITING);
        let dropped = Arc::new(AtomicU64::new(0));
        let (files, lost) = (Files::new(config), dropped.clone());
        let types = config.clone();
        let work = move || write(records, files, &types, &lost);
        thread::Builder::new().name("capture".to_owned()).spawn(work)?;
        let (config, room) = (config.clone(), Budget::new(MOST_BYTES));
        Ok(Capture(Arc::new(Inner { config, queue, room, dropped })))
    }

    /// The capture of a request, if it is chosen by its `id`.
    pub fn begin(&self, about: impl FnOnce() -> About, id: &str) -> Option<Arc<Captured>> {
        if !is_chosen(id, self.0.config.percent) {
            return None;
        }
        let permit = self.0.room.take(0)?;
        let record =
            Record { about: about(), at: SystemTime::now().into(), input: None, output: None };
        let record = Mutex::new(Some((record, permit)));
        Some(Arc::new(Captured { capture: self.clone(), record }))
    }

    /// Waits until what was captured is written, for so long at most. Blocking.
    pub fn finish(&self, patience: Duration) {
        self.0.queue.flush(patience);
    }

    fn part(
        &self,
        permit: &mut Permit,
        content_type: Option<&str>,
        pieces: &[Bytes],
    ) -> Option<CapturedBody> {
        let whole: usize = pieces.iter().map(Bytes::len).sum();
        let kept = whole.min(self.0.config.body_bytes);
        if !permit.grow_by(kept) {
            return None;
        }
        let mut bytes = Vec::with_capacity(kept);
        for piece in pieces {
            let room = kept - bytes.len();
            bytes.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
        Some(CapturedBody {
            content_type: content_type.unwrap_or_default().to_owned(),
            bytes,
            whole,
        })
    }
}

impl Captured {
    /// The request's body.
    pub fn input(&self, body: &Bytes) {
        if !self.capture.0.config.input {
            return;
        }
        self.add(|record, permit| {
            let content_type = record.about.content_type.as_deref();
            record.input = self.capture.part(permit, content_type, std::slice::from_ref(body));
            record.input.is_some()
        });
    }

    /// The reply, which ends the capture: it is written from now on.
    pub fn output(&self, content_type: Option<&str>, body: &[Bytes]) {
        if self.capture.0.config.output {
            self.add(|record, permit| {
                record.output = self.capture.part(permit, content_type, body);
                record.output.is_some()
            });
        }
        let Some((record, permit)) = self.take() else { return };
        if !self.capture.0.queue.put((Box::new(record), permit)) {
            self.capture.0.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Where there is no room for a part, the whole record is dropped.
    fn add(&self, part: impl FnOnce(&mut Record, &mut Permit) -> bool) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((there, permit)) = &mut *record
            && !part(there, permit)
        {
            *record = None;
            self.capture.0.dropped.fetch_add(1, Relaxed);
        }
    }

    fn take(&self) -> Option<(Record, Permit)> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Is a request of this id among so many of a hundred? The same one always is or never.
fn is_chosen(id: &str, percent: f64) -> bool {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    // 53 bits are what a number of that type holds exactly.
    let share = (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64;
    share * 100.0 < percent
}

/// What the thread does: writes, and reports what was lost.
fn write(
    mut records: Inbox<(Box<Record>, Permit)>,
    mut files: Files,
    config: &CaptureSettings,
    dropped: &AtomicU64,
) {
    let mut reported: Option<Instant> = None;
    let mut problem: Option<io::Error> = None;
    loop {
        match records.next(None) {
            Received::Item((record, permit)) => {
                let line = line::line(&record, &new_uuid(), config);
                drop(permit);
                if let Err(error) = files.write(&record.about.model, record.at, &line) {
                    dropped.fetch_add(1, Relaxed);
                    problem = Some(error);
                }
            }
            Received::Flush(_) | Received::Nothing => {}
            Received::Closed => return,
        }
        let due = reported.is_none_or(|it| BETWEEN_REPORTS <= it.elapsed());
        if due && 0 < dropped.load(Relaxed) {
            let count = dropped.swap(0, Relaxed);
            let reason = problem
                .take()
                .map_or("they came faster than they are written".to_owned(), |it| it.to_string());
            tracing::warn!(count, reason, "captured requests were not written");
            reported = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dir: std::path::PathBuf) -> CaptureSettings {
        CaptureSettings {
            dir,
            percent: 100.0,
            input: true,
            output: true,
            csv_types: vec!["text/csv".to_owned()],
            json_types: vec!["application/json".to_owned()],
            body_bytes: 8,
            file_bytes: 1 << 20,
        }
    }

    #[test]
    fn about_as_many_as_asked_for_are_chosen_and_the_same_ones_each_time() {
        let chosen =
            |percent| (0..10_000).filter(|it| is_chosen(&format!("id-{it}"), percent)).count();
        assert_eq!((chosen(0.0), chosen(100.0)), (0, 10_000));
        let quarter = chosen(25.0);
        assert!((2_300..2_700).contains(&quarter), "{quarter}");
        assert_eq!(chosen(25.0), quarter);
    }

    #[test]
    fn what_was_captured_is_written_when_the_end_is_waited_for() {
        let dir = std::env::temp_dir().join(format!("muster-capture-{}", std::process::id()));
        let capture = Capture::start(&config(dir.clone())).unwrap();
        let about = About { model: "a/b".into(), ..About::default() };
        let captured = capture.begin(|| about, "id").unwrap();
        captured.input(&Bytes::from_static(b"0123456789"));
        captured.output(Some("text/csv"), &[Bytes::from_static(b"1,"), Bytes::from_static(b"2\n")]);
        // A second answer to the same request is not written.
        captured.output(Some("text/csv"), &[]);
        capture.finish(Duration::from_secs(10));
        let below = dir.join("a_b").join("AllTraffic");
        let mut folder = below;
        for _ in 0..4 {
            folder = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        }
        let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["captureData"]["endpointOutput"]["data"], "1,2\n");
        assert_eq!(line["eventMetadata"]["truncated"]["INPUT"], 10);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn where_there_is_no_room_a_record_is_dropped_whole_and_counted() {
        let dir = std::env::temp_dir().join(format!("muster-no-room-{}", std::process::id()));
        let large = CaptureSettings { body_bytes: usize::MAX, ..config(dir.clone()) };
        let capture = Capture::start(&large).unwrap();
        let captured = capture.begin(About::default, "id").unwrap();
        captured.input(&vec![0; MOST_BYTES + 1].into());
        captured.output(None, &[]);
        capture.finish(Duration::from_secs(10));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
