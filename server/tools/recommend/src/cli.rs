//! The command line: `recommend …`. The program parses [`Args`] and calls [`run`].

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use control_plane::pipe;
use loadgen::write_csv;
use serde_json::Value;

pub use crate::arguments::Args;
use crate::{
    api::ControlPlane,
    arguments::Door,
    bottleneck::Used,
    control_server,
    journal::{Journal, LOCK, Trouble},
    made_bodies,
    run::{Done, Status},
    surroundings::Surroundings,
    winner,
};

/// How much less than the server that has started it this program and its servers are worth to the system.
const NICE: i32 = 10;

/// Nothing was within the limits.
const NOTHING_WITHIN: u8 = 3;
/// The arguments cannot be used.
const USAGE: u8 = 2;

/// Does the job; `program` is what serves, and `stop` ends the job with what it has. Progress goes to standard error,
/// findings to standard output and the files that the arguments name. What is measured is kept below `state`, unless
/// the arguments name another place. Blocks until it is over.
pub fn run(args: &Args, program: &Path, state: Option<PathBuf>, stop: Arc<AtomicBool>) -> ExitCode {
    if let Some(door) = args.serve {
        return serve(args, door, program, &stop);
    }
    let (job, mut means) =
        match args.job().and_then(|job| Ok((args.means(&job, program, stop)?, job))) {
            Ok((means, job)) => (job, means),
            Err(problem) => {
                eprintln!("{problem}");
                return ExitCode::from(USAGE);
            }
        };
    let mut say = |line: &str| {
        // Whoever took standard error away does not want the line.
        let _ = writeln!(io::stderr(), "{line}");
    };
    if job.payload.is_none() {
        let lock = args.state.as_ref().or(state.as_ref()).map(|it| it.join(LOCK));
        let (made_up, stop) = (&args.made_up, &means.stop);
        match made_bodies::bodies(
            &job,
            Some(made_up),
            program,
            &Vec::new(),
            stop,
            lock.as_deref(),
            &mut say,
        ) {
            Ok(bodies) => means.bodies = bodies,
            Err(problem) if means.stop.load(Ordering::Relaxed) => {
                say(&format!("STOPPED while bodies were made up: {problem}"));
                return ExitCode::FAILURE;
            }
            Err(problem) => {
                say(&format!("FAILED {problem}"));
                return ExitCode::FAILURE;
            }
        }
    }
    let journal = match args.journal(&job, &means, state, &mut say) {
        Ok(journal) => journal,
        Err(Trouble::Stopped) => {
            say(&format!("STOPPED {}", Trouble::Stopped));
            return ExitCode::FAILURE;
        }
        Err(trouble) => {
            say(&format!("WARNING {trouble}"));
            Journal::default()
        }
    };
    let is_kept = journal.created().is_some();
    let done = crate::run::go_on(job, &means, journal, &mut say);
    if is_kept && done.status == Status::Stopped {
        say("the same command goes on from here, with --fresh from the beginning");
    }
    let written = args.write(&done);
    written.iter().for_each(|problem| eprintln!("{problem}"));
    let best = done.ranked.first().and_then(|it| done.steps.get(*it));
    if let Some(best) = best {
        let model = done.job.model.as_deref().unwrap_or_default();
        let config = winner::config_pbtxt(best).unwrap_or_default();
        let word = match best.row().is_some_and(|it| it.meets) {
            true => "best",
            false => "nothing is within the limits; the nearest",
        };
        eprintln!("\n{}", done.table());
        done.differences().iter().for_each(|it| eprintln!("{it}"));
        if done.job.endpoint.is_none() {
            eprintln!("{word}: {}", best.setting.variables());
            if let Some(used) = Used::of(best) {
                eprintln!("with it {used}");
            }
            eprintln!("{config}{}", winner::docker_run(best, model));
        }
    }
    if !written.is_empty() {
        return ExitCode::FAILURE;
    }
    match (done.status, best.and_then(|it| it.row())) {
        (Status::Failed, _) | (_, None) => ExitCode::FAILURE,
        (_, Some(row)) if !row.meets => ExitCode::from(NOTHING_WITHIN),
        _ => ExitCode::SUCCESS,
    }
}

/// Answers operations until `stop` is set.
fn serve(args: &Args, door: Door, program: &Path, stop: &AtomicBool) -> ExitCode {
    if door == Door::StandardInput {
        // Where the system refuses it, the jobs are in the way of the server as any other program.
        let _ = rustix::process::nice(NICE);
    }
    let settings = match args.control(program) {
        Ok(settings) => settings,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(USAGE);
        }
    };
    let control = match ControlPlane::open(settings) {
        Ok(control) => Arc::new(control),
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let served = match door {
        Door::Address(address) => control_server::serve(address, &control, stop)
            .map_err(|problem| format!("{address}: {problem}")),
        Door::StandardInput => pipe::standard_input()
            .and_then(|socket| {
                pipe::serve(&socket, |target, body| control.answer(target, body), stop)
            })
            .map_err(|problem| format!("standard input, expected a socket of a pair: {problem}")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Writes every window as a line of CSV.
fn write_series(
    path: &Path,
    done: &Done,
    surroundings: &Surroundings,
) -> Result<(), loadgen::Error> {
    let measured = done.steps.iter().filter_map(|it| Some((it, it.outcome.as_ref().ok()?)));
    let windows = measured.flat_map(|(step, measured)| {
        let of = [&step.setting.instance_type, &step.setting.variables(), step.length.name()];
        let of: Vec<String> =
            of.map(str::to_owned).into_iter().chain(surroundings.values(step)).collect();
        measured.windows.iter().map(move |it| (of.clone(), it))
    });
    let columns = ["machine", "settings", "tried"].into_iter().chain(Surroundings::columns());
    let columns: Vec<&str> = columns.collect();
    write_csv(path, &columns, windows)
}

impl Args {
    /// Writes all that the arguments name. What could not be written, a sentence each.
    fn write(&self, done: &Done) -> Vec<String> {
        let file = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
            None => Ok(()),
            Some(path) => fs::write(path, text()).map_err(|it| format!("{}: {it}", path.display())),
        };
        let pretty = |value: Value| format!("{value:#}\n");
        let describe = match &self.describe {
            Some(_) => file(&self.describe, &|| pretty(done.describe())),
            None => {
                let text = pretty(done.describe());
                io::stdout().write_all(text.as_bytes()).map_err(|it| format!("output: {it}"))
            }
        };
        let files = [&self.series, &self.table, &self.html];
        // It reads the models, which can be large.
        let surroundings =
            files.iter().any(|it| it.is_some()).then(|| Surroundings::of(done, &self.trust));
        let with = |text: &dyn Fn(&Surroundings) -> String| {
            surroundings.as_ref().map(text).unwrap_or_default()
        };
        let series = match (&self.series, &surroundings) {
            (Some(path), _) if path.extension().is_some_and(|it| it == "json") => {
                file(&self.series, &|| pretty(done.put_metric_data()))
            }
            (Some(path), Some(surroundings)) => {
                write_series(path, done, surroundings).map_err(|it| it.to_string())
            }
            _ => Ok(()),
        };
        let outcomes = [
            describe,
            file(&self.steps, &|| pretty(done.list_steps())),
            file(&self.table, &|| with(&|it| done.table_file(it))),
            file(&self.html, &|| with(&|it| done.page(it).to_html())),
            series,
        ];
        outcomes.into_iter().filter_map(Result::err).collect()
    }
}
