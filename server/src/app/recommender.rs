//! The recommender behind `--recommendation-jobs`: `muster-recommend --serve -` in a process of its own, so that load
//! tests take neither memory nor threads of this one, and a defect of theirs is not its end. It is started with the
//! server, since jobs that an earlier one left half done go on, and ends with it.

use std::{
    env,
    ffi::OsString,
    io::{self, BufRead, BufReader},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStderr, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use control_plane::{Reply, misdirected, pipe::Asking};
use sagemaker::{Asked, NoReply};
use tokio::sync::mpsc::Receiver;

use crate::{config::Recommending, tools};

/// How variables begin by which this server is told what it serves, and where: its ports and tokens are not those of
/// servers under test.
const OWN_VARIABLES: [&str; 3] = ["MUSTER_", "SAGEMAKER_", "AIP_"];
/// How long the last line of a recommender that has ended is waited for.
const LAST_LINE: Duration = Duration::from_secs(1);

/// A recommender that runs.
struct Running {
    child: Child,
    asking: Asking,
    /// Gets its last line when it has ended.
    last: mpsc::Receiver<String>,
}

/// Starts the recommender, and the thread that hands operations on to it.
///
/// # Errors
/// When the system refuses the process or the thread.
pub(super) fn start(settings: &Recommending, mut asked: Receiver<Asked>) -> io::Result<()> {
    let settings = settings.clone();
    let mut running = Some(Running::start(&settings)?);
    let hand_on = move || {
        while let Some(Asked { parts, target, body, reply }) = asked.blocking_recv() {
            // Its client has been told that it was not done.
            if reply.is_closed() {
                continue;
            }
            let answer = match misdirected(&parts.uri, &parts.headers) {
                Some(reply) => Ok(reply),
                None => ask(&settings, &mut running, &target, &body),
            };
            // The client may be gone.
            let _ = reply.send(answer.map(|it| (it.status, it.body)));
        }
    };
    thread::Builder::new().name("recommender".to_owned()).spawn(hand_on).map(drop)
}

/// The reply to an operation. A recommender that has ended is started again for the next one.
fn ask(
    settings: &Recommending,
    running: &mut Option<Running>,
    target: &str,
    body: &[u8],
) -> Result<Reply, NoReply> {
    let mut asked = match running.take() {
        Some(running) => running,
        None => Running::start(settings).map_err(NoReply::NotStarted)?,
    };
    match asked.asking.ask(target, body) {
        Ok(reply) => {
            *running = Some(asked);
            Ok(reply)
        }
        Err(error) => Err(NoReply::Ended(asked.end(&error).to_string())),
    }
}

impl Running {
    fn start(settings: &Recommending) -> io::Result<Running> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(tools::RECOMMEND.program());
        command.args(["--serve", "-", "--jobs"]).arg(&settings.jobs);
        if let Some(prices) = &settings.prices {
            command.arg("--prices").arg(prices);
        }
        let own = |name: &OsString| {
            OWN_VARIABLES.iter().any(|it| name.as_encoded_bytes().starts_with(it.as_bytes()))
        };
        let mut child = command
            .env_clear()
            .envs(env::vars_os().filter(|it| !own(&it.0)))
            .envs(settings.environment.iter().map(|(name, text)| (name, text)))
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|it| tools::RECOMMEND.missing(it))?;
        let (sender, last) = mpsc::channel();
        if let Some(lines) = child.stderr.take() {
            let log = move || {
                // Nobody may wait for it.
                let _ = sender.send(log(lines));
            };
            thread::Builder::new().name("recommender-log".to_owned()).spawn(log)?;
        }
        Ok(Running { child, asking: Asking::new(ours)?, last })
    }

    /// Ends it, if it has not ended. Its last line, or the error where it said nothing.
    fn end(mut self, error: &io::Error) -> String {
        // The number of one that has ended may be another process's by now.
        if matches!(self.child.try_wait(), Ok(None)) {
            // It may end by itself in this moment, and the first process of a container takes all ends.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let last = self.last.recv_timeout(LAST_LINE).unwrap_or_default();
        if last.is_empty() { error.to_string() } else { last }
    }
}

/// Writes what the recommender says into the log, until it ends. The last line.
fn log(lines: ChildStderr) -> String {
    let mut last = String::new();
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        tracing::info!(%line, "recommender");
        last = line;
    }
    tracing::warn!("the recommender has ended");
    last
}
