//! A job on disk, so that a program that starts again knows what was asked for and what has been measured.
//!
//! `job.json` is the job's [`JobState`], replaced as a whole. `tried.jsonl` has a line for each [`Step`], in the order
//! of their trial. `answers/` has the answers that those of further settings are compared with, `log.jsonl` what the
//! job has said.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    job_state::{FORMAT, JobState},
    step::Step,
    words::shortened,
};

const STATE: &str = "job.json";
const NEW_STATE: &str = "job.json.new";
const TRIED: &str = "tried.jsonl";
const ANSWERS: &str = "answers";
const LOG: &str = "log.jsonl";
const MODEL: &str = "model";
const MEASURED: &str = "measured";

/// Lines of a job that are kept, and their longest.
const MOST_LINES: usize = 10_000;
const LONGEST_LINE: usize = 4096;

/// A line that a job has said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// In milliseconds since 1970.
    pub timestamp: u64,
    /// The line.
    pub message: String,
}

/// The folder of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFolder {
    path: PathBuf,
}

impl JobFolder {
    /// The folder at this path, which is made where it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<JobFolder> {
        fs::create_dir_all(path)?;
        Ok(JobFolder { path: path.to_owned() })
    }

    /// The job's state; `None` where none was written.
    ///
    /// # Errors
    /// Those of the file system, and [`io::ErrorKind::InvalidData`] for another form.
    pub fn state(&self) -> io::Result<Option<JobState>> {
        let text = match fs::read(self.path.join(STATE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let state: JobState = serde_json::from_slice(&text)?;
        match state.format {
            FORMAT => Ok(Some(state)),
            other => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("format {other}, expected {FORMAT}"),
            )),
        }
    }

    /// Replaces the job's state. After a crash either the old or the new one is there.
    ///
    /// # Errors
    /// Those of the file system. The old state stays.
    pub fn write_state(&self, state: &JobState) -> io::Result<()> {
        let new = self.path.join(NEW_STATE);
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(state)?)?;
        file.sync_all()?;
        fs::rename(new, self.path.join(STATE))?;
        File::open(&self.path)?.sync_all()
    }

    /// Adds a setting that was tried.
    ///
    /// # Errors
    /// Those of the file system. A line that was written in part is read over.
    pub fn add(&self, step: &Step) -> io::Result<()> {
        append(&self.path.join(TRIED), step)?.sync_data()
    }

    /// The settings that were tried, in their order. Their answers are empty, see [`JobFolder::answers`].
    ///
    /// # Errors
    /// Those of the file system.
    pub fn tried(&self) -> io::Result<Vec<Step>> {
        lines(&self.path.join(TRIED), usize::MAX)
    }

    /// Adds a line that the job says. Long ones are cut, and lines beyond a bound are not read again.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn say(&self, message: &str, now: SystemTime) -> io::Result<()> {
        let timestamp = now.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_millis() as u64);
        let line = Said { timestamp, message: shortened(message, LONGEST_LINE) };
        append(&self.path.join(LOG), &line).map(|_| ())
    }

    /// The lines that the job has said. Their times never run backwards, as the clock may when it is set.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn said(&self) -> io::Result<Vec<Said>> {
        let mut said: Vec<Said> = lines(&self.path.join(LOG), MOST_LINES)?;
        let mut latest = 0;
        for line in &mut said {
            latest = latest.max(line.timestamp);
            line.timestamp = latest;
        }
        Ok(said)
    }

    /// Keeps the answers that those of further settings are compared with, one for each body.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write_answers(&self, answers: &[Vec<u8>]) -> io::Result<()> {
        let path = self.path.join(ANSWERS);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        let mut numbered = answers.iter().enumerate();
        numbered.try_for_each(|(index, answer)| fs::write(path.join(index.to_string()), answer))
    }

    /// The answers that were kept, for so many bodies; `None` where one is missing.
    pub fn answers(&self, bodies: usize) -> Option<Vec<Vec<u8>>> {
        let path = self.path.join(ANSWERS);
        (0..bodies).map(|index| fs::read(path.join(index.to_string())).ok()).collect()
    }

    /// Where a model is unpacked.
    pub fn room(&self) -> PathBuf {
        self.path.join(MODEL)
    }

    /// Where what was measured is kept while the job is being done.
    pub fn measured(&self) -> PathBuf {
        self.path.join(MEASURED)
    }

    /// Removes the folder with all that is in it. One that is gone is removed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self) -> io::Result<()> {
        gone(fs::remove_dir_all(&self.path))
    }

    /// Forgets what was tried, the answers and the lines. The state stays.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn clear(&self) -> io::Result<()> {
        gone(fs::remove_file(self.path.join(TRIED)))?;
        gone(fs::remove_file(self.path.join(LOG)))?;
        gone(fs::remove_dir_all(self.path.join(ANSWERS)))
    }
}

/// What comes of removing something; that it is not there is no failure.
fn gone(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Adds a line of JSON to a file. One that was written in part before it stays a line of its own.
fn append(path: &Path, value: &impl Serialize) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let mut line = Vec::new();
    if !ends_a_line(&mut file)? {
        line.push(b'\n');
    }
    serde_json::to_writer(&mut line, value)?;
    line.push(b'\n');
    file.write_all(&line)?;
    Ok(file)
}

/// The lines of a file that are such values, at most so many; none where there is no file.
fn lines<T: DeserializeOwned>(path: &Path, most: usize) -> io::Result<Vec<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut values = Vec::new();
    for line in BufReader::new(file).split(b'\n').take(most) {
        // A line that a crash has cut off is none.
        values.extend(serde_json::from_slice(&line?).ok());
    }
    Ok(values)
}

/// Is the file empty, or its last line complete?
fn ends_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job_state::JobStatus,
        prices::Instance,
        rejection::Rejection,
        served::Served,
        setting::Setting,
        step::Length,
        trial::Measured,
        windows::{Chosen, Stop, tests::window},
    };
    use loadgen::Usage;
    use serde_json::json;
    use std::time::Duration;

    fn folder(name: &str) -> JobFolder {
        let name = format!("muster-job-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        JobFolder::create(&path).unwrap()
    }

    fn step(threads: &str, outcome: Result<Measured, Rejection>) -> Step {
        Step {
            setting: Setting {
                instance_type: "local.cpu2".to_owned(),
                instance: Instance { cpus: 2, gpu: false, price_per_hour: Some(0.115) },
                environment: vec![("OMP_NUM_THREADS".to_owned(), threads.to_owned())],
            },
            outcome,
            setup: Some(Duration::from_millis(1600)),
            served: Some(Served {
                engine: "onnxruntime".to_owned(),
                version: Some("1.31.1".to_owned()),
                device: "CPU".to_owned(),
                instances: 2,
                threads: 1,
                rows: 4,
            }),
            command: "muster serve m".to_owned(),
            shares_processors: true,
            length: Length::Round,
            rounds: Vec::new(),
        }
    }

    fn measured() -> Measured {
        let mut second = window(4, 93.25, 7, 1);
        second.server = Some(Usage { cores: 1.5, resident: 1 << 30 });
        Measured {
            started: UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
            ended: UNIX_EPOCH + Duration::from_secs(1_700_000_009),
            samples: vec![second],
            windows: vec![window(1, 50.0, 5, 0), second],
            chosen: Chosen { index: 1, meets: true },
            latency: Duration::from_micros(7_400),
            stop: Some(Stop::Flat),
            client_bound: true,
            client_cores: 0.93,
            answers_vary: false,
            answers: vec![b"[1]".to_vec()],
        }
    }

    #[test]
    fn what_was_tried_is_read_again_as_it_was_but_for_a_line_that_was_cut_off() {
        let folder = folder("tried");
        assert!(folder.tried().unwrap().is_empty());
        folder.add(&step("1", Ok(measured()))).unwrap();
        let mut cut = OpenOptions::new().append(true).open(folder.path.join(TRIED)).unwrap();
        cut.write_all(b"{\"setting\":{\"instance_type\":").unwrap();
        folder.add(&step("2", Err(Rejection::new("status 400, \"x\"")))).unwrap();

        let expected = Measured { answers: Vec::new(), ..measured() };
        let tried = folder.tried().unwrap();
        assert_eq!(tried.len(), 2, "{tried:?}");
        let texts: Vec<String> = tried.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(texts[0], format!("{:?}", step("1", Ok(expected))));
        assert_eq!(texts[1], format!("{:?}", step("2", Err(Rejection::new("status 400, \"x\"")))));

        assert_eq!(folder.answers(1), None);
        folder.write_answers(&[vec![0, 255], Vec::new()]).unwrap();
        assert_eq!(folder.answers(2), Some(vec![vec![0, 255], Vec::new()]));
        assert_eq!(folder.answers(3), None);
        let now = UNIX_EPOCH + Duration::from_millis(1500);
        folder.say("first", now).unwrap();
        // The clock was set back.
        folder.say(&"x".repeat(10_000), UNIX_EPOCH).unwrap();
        let said = folder.said().unwrap();
        assert_eq!(said[1].timestamp, 1500);
        assert_eq!(said[0], Said { timestamp: 1500, message: "first".to_owned() });
        assert_eq!(said[1].message.len(), LONGEST_LINE);
        folder.clear().unwrap();
        assert!(folder.tried().unwrap().is_empty() && folder.answers(1).is_none());
        assert!(folder.said().unwrap().is_empty());
        folder.remove().unwrap();
    }

    #[test]
    fn a_state_is_read_again_and_another_form_is_refused() {
        let folder = folder("state");
        assert_eq!(folder.state().unwrap(), None);
        let mut state = JobState::new(json!({"JobName": "j"}), UNIX_EPOCH);
        folder.write_state(&state).unwrap();
        state.status = JobStatus::InProgress;
        state.ended = Some(UNIX_EPOCH + Duration::from_millis(1_700_000_000_250));
        state.steps = vec![json!({"StepType": "BENCHMARK"})];
        folder.write_state(&state).unwrap();
        assert_eq!(folder.state().unwrap(), Some(state.clone()));
        assert!(!folder.path.join(NEW_STATE).exists());
        let text = fs::read_to_string(folder.path.join(STATE)).unwrap();
        assert!(text.contains("\"IN_PROGRESS\"") && text.contains("1700000000.25"), "{text}");

        // What a crash left of a new state does not count.
        fs::write(folder.path.join(NEW_STATE), "{").unwrap();
        assert_eq!(folder.state().unwrap(), Some(state));
        let other = text.replace("\"format\":1", "\"format\":2");
        fs::write(folder.path.join(STATE), other).unwrap();
        let error = folder.state().unwrap_err();
        assert_eq!(error.to_string(), "format 2, expected 1");
        fs::remove_dir_all(folder.path).unwrap();
    }
}
