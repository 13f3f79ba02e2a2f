//! Signals that stop the process: the first one ends the job with what it has, a second one the process.

use std::{
    fs, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The same signal within that time is one wish: GNU `timeout` sends it to the process and to its group.
const ONE_WISH: Duration = Duration::from_secs(1);

/// Set by the first signal.
///
/// # Errors
/// When the system refuses a thread or a handler.
pub fn stop() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::<AtomicBool>::default();
    let (stopped, (begun, has_begun)) = (stop.clone(), mpsc::channel());
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(begun.send(Err(error))),
        };
        runtime.block_on(async {
            match handlers() {
                Ok(signals) => {
                    let _ = begun.send(Ok(()));
                    heed(signals, &stopped).await;
                }
                Err(error) => drop(begun.send(Err(error))),
            }
        });
    };
    thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
    has_begun.recv().map_err(io::Error::other)??;
    Ok(stop)
}

struct Handlers {
    /// `None` where the process was started to ignore it, as by `nohup`.
    hangup: Option<Signal>,
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
}

fn handlers() -> io::Result<Handlers> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    Ok(Handlers {
        hangup: (!ignores_hangup(&status)).then(|| signal(SignalKind::hangup())).transpose()?,
        interrupt: signal(SignalKind::interrupt())?,
        quit: signal(SignalKind::quit())?,
        terminate: signal(SignalKind::terminate())?,
    })
}

/// Does a process of that status ignore the first of all signals?
fn ignores_hangup(status: &str) -> bool {
    let line = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    line.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).is_some_and(|it| it & 1 == 1)
}

async fn heed(mut signals: Handlers, stopped: &AtomicBool) {
    // The last signal that was no echo, and when it came.
    let mut last: Option<(SignalKind, Instant)> = None;
    loop {
        let hangup = async {
            match &mut signals.hangup {
                Some(it) => it.recv().await,
                None => std::future::pending().await,
            }
        };
        let kind = tokio::select! {
            _ = hangup => SignalKind::hangup(),
            _ = signals.interrupt.recv() => SignalKind::interrupt(),
            _ = signals.quit.recv() => SignalKind::quit(),
            _ = signals.terminate.recv() => SignalKind::terminate(),
        };
        match last {
            None => stopped.store(true, Ordering::Relaxed),
            Some((before, at)) if before == kind && at.elapsed() < ONE_WISH => continue,
            Some(_) => std::process::exit(1),
        }
        last = Some((kind, Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hangup_that_is_ignored_stays_ignored() {
        assert!(!ignores_hangup("Name:\tmuster\nSigIgn:\t0000000000001000\n"));
        assert!(ignores_hangup("SigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignores_hangup(""));
    }
}
