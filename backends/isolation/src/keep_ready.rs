//! A worker is kept ready beside the one that serves: loaded on a thread of its own, and another when it has died.

use std::{
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use crate::{patience::LOOK, supervisor::Supervisor, whose::device_name};

/// A worker that was kept ready and has died, or could not be loaded, is loaded again so much later, and where that
/// fails so much later at most.
const PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl Supervisor {
    /// From now on a worker is kept ready where one is wanted, also where the last one serves by now.
    pub(crate) fn keeps_ready(self: &Arc<Self>) {
        self.stand_by(Duration::ZERO);
    }

    /// The worker that was kept ready may have died: another is loaded then.
    pub(crate) fn replace_lost_standby(self: &Arc<Self>) {
        let Some(worker) = self.standby().take_lost() else { return };
        tracing::error!(
            model = self.model(),
            version = self.version(),
            device = %device_name(self.device()),
            worker = worker.pid(),
            last_lines = worker.last_lines(),
            "{}; it was kept ready, and another is loaded",
            worker.obituary()
        );
        self.stand_by(PAUSE);
    }

    /// Sees to it, after that pause, that a worker is kept ready where one is wanted.
    fn stand_by(self: &Arc<Self>, pause: Duration) {
        if !self.standby().begins() {
            return;
        }
        let weak = Arc::downgrade(self);
        let name = format!("standby-{}", self.model());
        let spawned = thread::Builder::new().name(name).spawn(move || keep_ready(&weak, pause));
        if let Err(error) = spawned {
            tracing::warn!(model = self.model(), %error, "no thread to keep a process ready");
            self.standby().has_begun(None);
        }
    }
}

/// Loads a worker that is kept ready, after that pause; where that fails, again after longer and longer ones.
fn keep_ready(supervisor: &Weak<Supervisor>, mut pause: Duration) {
    loop {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
            if supervisor.strong_count() == 0 {
                return;
            }
        }
        let Some(supervisor) = supervisor.upgrade() else { return };
        let (model, version) = (supervisor.model(), supervisor.version());
        match supervisor.another() {
            Ok((worker, took)) => {
                tracing::info!(model, version, worker = worker.pid(), "a process is kept ready");
                // It gives back what its load has left, and is looked at once more.
                worker.give_back_memory();
                supervisor.standby().has_begun(Some((worker, took)));
                // It may have died before anybody knew that it is kept.
                return supervisor.replace_lost_standby();
            }
            Err(_) if Arc::strong_count(&supervisor) == 1 => return,
            Err(error) => {
                tracing::warn!(model, version, %error, "no process of it is kept ready");
            }
        }
        pause = (pause * 2).clamp(PAUSE, LONGEST_PAUSE);
    }
}
