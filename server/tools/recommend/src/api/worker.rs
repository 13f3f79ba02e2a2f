//! The thread that does the jobs, one after the other.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::SystemTime,
};

use archives::ArchiveError;
use loadgen::Trust;

use super::{
    jobs::{Jobs, Work},
    line,
    variables::may_be_set,
};
use crate::{
    Invalid,
    basis::Basis,
    describe,
    job::{Configuration, Job},
    job_folder::JobFolder,
    job_state::{JobState, JobStatus},
    journal::{Journal, JournalPaths, Trouble, end_left_behind},
    made_bodies::{self, MadeUpError},
    means::Means,
    payload::{self, PayloadError},
    prices::{PriceError, Prices},
    ranking::Objective,
    run::{self, Done},
    shares::Places,
    step::Length,
    variants,
    watch::Watch,
};

/// What jobs are done with.
#[derive(Debug, Clone)]
pub struct ControlSettings {
    /// The program whose `serve` is started.
    pub program: PathBuf,
    /// Where jobs and models are kept; `None` for a directory that is removed at the end.
    pub jobs: Option<PathBuf>,
    /// Machines.
    pub prices: Prices,
    /// What is to be low, or high.
    pub objective: Objective,
    /// The times of loads are divided by this.
    pub time_scale: f64,
    /// Processors for servers and load generators.
    pub places: Places,
    /// What is tried where a job names no machine.
    pub machines: Vec<Configuration>,
}

/// Why a job ended without findings.
#[derive(Debug, thiserror::Error)]
enum JobError {
    /// What was asked for cannot be done.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Its machines have no prices that can be compared.
    #[error("EndpointConfigurations: {0}")]
    Prices(#[from] PriceError),
    /// The model cannot be unpacked.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The bodies cannot be read.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// Nothing is known of what a server that runs already takes.
    #[error("SamplePayloadUrl: expected what is sent to {endpoint}, given none")]
    NoPayload { endpoint: String },
    /// No bodies can be made up.
    #[error(transparent)]
    MadeUp(#[from] MadeUpError),
    /// The thread panicked.
    #[error("a defect of the recommender")]
    Defect,
}

/// Does jobs until no further one is begun. `lock` is that of all of them.
pub(super) fn work(jobs: &Arc<Jobs>, settings: &ControlSettings, lock: &Path) {
    // The job that it was for may be none that is done again.
    if let Err(problem) = end_left_behind(lock, &mut |line| line::print(format_args!("{line}"))) {
        line::print(format_args!("WARNING {}: {problem}", lock.display()));
    }
    while let Some(work) = jobs.next(SystemTime::now) {
        let name = work.name.clone();
        // A defect ends the job, and no other one.
        let outcome = catch_unwind(AssertUnwindSafe(|| one(jobs, settings, lock, &work)));
        let outcome = outcome.unwrap_or(Err(JobError::Defect));
        if work.folder.room().exists() {
            // What stays is removed with the job.
            let _ = fs::remove_dir_all(work.folder.room());
        }
        let is_over = jobs.change(&name, SystemTime::now(), |state| match outcome {
            Ok(done) => done.write_to(state),
            Err(problem) => fail(state, problem.to_string()),
        });
        if is_over {
            // What stays is removed with the job.
            let _ = fs::remove_dir_all(work.folder.measured());
        }
    }
}

fn fail(state: &mut JobState, problem: String) {
    state.status = JobStatus::Failed;
    state.ended = Some(SystemTime::now());
    state.failure = Some(problem);
}

fn one(
    jobs: &Arc<Jobs>,
    settings: &ControlSettings,
    lock: &Path,
    work: &Work,
) -> Result<Done, JobError> {
    let Work { name, state, folder, stop } = work;
    let mut say = |line: &str| tell(name, folder, line);
    let mut job = Job::parse(&state.request)?;
    if job.configurations.is_empty() && job.endpoint.is_none() {
        job.configurations = settings.machines.clone();
    }
    let names = job.machines();
    settings.prices.for_all(&names, settings.places.servers.len())?;
    let mut environment = Vec::new();
    let unpacked = folder.room();
    if let Some(model) = &state.model {
        // Somebody may have written to the file of the job since it was made.
        environment.clone_from(&model.environment);
        environment.retain(|it| may_be_set(&it.0));
        let is_archive = archives::is_archive(&model.path) && Path::new(&model.path).is_file();
        job.model = Some(match is_archive {
            true => {
                archives::unpack(Path::new(&model.path), &unpacked, archives::MOST_BYTES)?;
                unpacked.to_string_lossy().into_owned()
            }
            false => model.path.clone(),
        });
    }
    // Before the journal: findings depend on them.
    let model = job.model.as_deref().unwrap_or_default();
    job.variants = variants::beside(Path::new(model));
    let bodies = match (&job.payload, &job.endpoint) {
        (Some(payload), _) => payload::read(payload, &job.content_types)?,
        (None, Some(endpoint)) => {
            return Err(JobError::NoPayload { endpoint: endpoint.clone() });
        }
        (None, None) => {
            let program = &settings.program;
            match made_bodies::bodies(&job, None, program, &environment, stop, Some(lock), &mut say)
            {
                Ok(bodies) => bodies,
                // With nothing to send it ends as stopped before anything is measured.
                Err(_) if stop.load(Ordering::Relaxed) => Vec::new(),
                Err(problem) => return Err(problem.into()),
            }
        }
    };
    let means = Means {
        program: settings.program.clone(),
        prices: settings.prices.clone(),
        places: settings.places.clone(),
        bodies,
        time_scale: settings.time_scale,
        stop: stop.clone(),
        objective: settings.objective,
        environment,
        trust: Trust::default(),
        has_lists: false,
        watch: watch(jobs.clone(), work, job.clone()),
    };
    let journal = match &job.endpoint {
        Some(_) => Journal::default(),
        // Stopped before it had any: what an earlier start has measured stays.
        None if means.bodies.is_empty() => Journal::default(),
        None => {
            let (basis, bodies) = (Basis::of(&job, &means), &means.bodies);
            let place = JournalPaths { lock: lock.to_owned(), folder: folder.measured() };
            match Journal::open(&place, &basis, bodies.len(), false, stop, &mut say) {
                Ok(journal) => journal,
                Err(Trouble::Stopped) => Journal::default(),
                Err(trouble) => {
                    say(&format!("WARNING {trouble}"));
                    Journal::default()
                }
            }
        }
    };
    Ok(run::go_on(job, &means, journal, &mut say))
}

/// Says a line, and keeps it.
fn tell(name: &str, folder: &JobFolder, line: &str) {
    line::print(format_args!("{name}: {line}"));
    if let Err(problem) = folder.say(line, SystemTime::now()) {
        line::print(format_args!("WARNING the line cannot be kept: {problem}"));
    }
}

/// Writes down each setting that was tried, and says what its windows carry.
fn watch(jobs: Arc<Jobs>, work: &Work, job: Job) -> Watch {
    let (name, folder, whose) = (work.name.clone(), work.folder.clone(), work.name.clone());
    let watch = Watch::new(move |step| {
        if step.length != Length::Round {
            let entry = describe::step(&job, step);
            let put = |state: &mut JobState| describe::put_entry(&mut state.steps, entry);
            jobs.change(&name, SystemTime::now(), put);
        }
    });
    watch.telling(move |line| tell(&whose, &folder, line))
}
