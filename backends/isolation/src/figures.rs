//! What the workers of one model version on one device have done so far, for whoever asks.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use backend::{EndReason, ModelProcess, Outage, ProcessFigures, Times};

use crate::{mapping::Mapping, usage::Usage, vitals::Vitals};

/// A worker is looked at no more often than that.
pub(crate) const SAMPLED_EVERY: Duration = Duration::from_secs(1);

/// What is counted of the workers of one model version on one device. It holds none of them.
#[derive(Default)]
pub(crate) struct Figures {
    counted: Mutex<Counted>,
    /// Lines that were too many for the log.
    pub(crate) dropped_lines: AtomicU64,
    /// What runs took beside what was computed. Not with the others, as each run adds to it, and these are held while
    /// workers are looked at.
    turns: Mutex<Turns>,
}

struct Turns(Times);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Times::of_turns())
    }
}

struct Starts(Times);

impl Default for Starts {
    fn default() -> Starts {
        Starts(Times::of_starts())
    }
}

#[derive(Default)]
struct Counted {
    /// Those that have not ended, the one that serves among them.
    living: Vec<Living>,
    /// The memory files of lanes.
    arenas: Vec<Weak<Mapping>>,
    restarts: [u64; EndReason::ALL.len()],
    starts: Starts,
    cpu_of_ended: Duration,
    ends: u64,
    /// There is no worker, and none that is worth to wait for.
    down: Option<Down>,
    /// A worker loads the model in the place of one that has died.
    loading: Option<Loading>,
    /// A worker is to show that it can answer.
    tried: Option<Tried>,
}

/// A worker that has loaded the model after many have died, and has made no run yet. One request at a time is let in:
/// nobody would come where the model were not ready.
struct Tried {
    reason: String,
    worker: Arc<Vitals>,
}

impl Tried {
    /// Is it at its first runs?
    fn is_busy(&self) -> bool {
        self.worker.answered() == 0 && self.worker.aboard().is_busy()
    }
}

/// A load in the place of a worker that has died.
struct Loading {
    reason: String,
    /// From then on nobody is to wait for it.
    worth_until: Instant,
    /// When it is likely to be done.
    until: Instant,
}

/// Somebody who comes during a load is to come again so much later at the soonest.
const COME_AGAIN: Duration = Duration::from_secs(1);

/// A load goes on, until this is dropped.
pub(crate) struct LoadNote<'a> {
    figures: &'a Figures,
}

impl Drop for LoadNote<'_> {
    fn drop(&mut self) {
        self.figures.lock().loading = None;
    }
}

/// Why there is no worker, and when the next is started.
struct Down {
    reason: String,
    until: Instant,
    /// Would that one serve another model?
    is_another: bool,
}

struct Living {
    vitals: Arc<Vitals>,
    serves: bool,
    sample: Option<Sample>,
}

/// What a worker used when it was last looked at.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    /// What it had done by then.
    work: u64,
    usage: Usage,
}

impl Figures {
    /// A worker was started.
    pub(crate) fn began(&self, worker: &Arc<Vitals>) {
        let living = Living { vitals: worker.clone(), serves: false, sample: None };
        self.lock().living.push(living);
    }

    /// One was started in the place of another, which had ended for that reason.
    pub(crate) fn restarted(&self, reason: EndReason) {
        if let Some(count) = self.lock().restarts.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// That one has loaded its model, so long after it was started, and serves from now on, alone.
    pub(crate) fn serves(&self, pid: u32, took: Duration) {
        let mut counted = self.lock();
        counted.starts.0.observe(took);
        counted.down = None;
        counted.tried = None;
        counted.living.iter_mut().for_each(|it| it.serves = it.vitals.pid == pid);
    }

    /// The worker that serves is to answer a request first, for that reason.
    pub(crate) fn is_tried(&self, reason: String, worker: &Arc<Vitals>) {
        self.lock().tried = Some(Tried { reason, worker: worker.clone() });
    }

    /// That one has ended, having used so much of the processors.
    pub(crate) fn ended(&self, pid: u32, cpu: Option<Duration>) {
        let mut counted = self.lock();
        counted.ends += 1;
        let Some(at) = counted.living.iter().position(|it| it.vitals.pid == pid) else { return };
        let living = counted.living.swap_remove(at);
        // What was seen before is not taken back where the system does not tell any more.
        let seen = living.sample.map_or(Duration::ZERO, |it| it.usage.cpu);
        counted.cpu_of_ended += cpu.unwrap_or_default().max(seen);
    }

    /// The memory that a worker has for itself, in bytes, as it was seen last; 0 for one that has ended.
    pub(crate) fn private_bytes(&self, pid: u32) -> u64 {
        let mut counted = self.lock();
        counted.look(Instant::now());
        let living = counted.living.iter().find(|it| it.vitals.pid == pid);
        living.and_then(|it| it.sample).map_or(0, |it| it.usage.private_bytes)
    }

    /// There is no worker, for that reason, and the next attempt to start one is made then.
    pub(crate) fn is_down(&self, reason: String, until: Instant) {
        self.lock().down = Some(Down { reason, until, is_another: false });
    }

    /// A worker loads the model, for that reason, and is likely to be done at `until`: from `worth_until` on nobody is
    /// to wait for it.
    pub(crate) fn loads(
        &self,
        reason: String,
        worth_until: Instant,
        until: Instant,
    ) -> LoadNote<'_> {
        self.lock().loading = Some(Loading { reason, worth_until, until });
        LoadNote { figures: self }
    }

    /// There is no worker, as the next one would serve another model, for that reason; that is looked at again then.
    pub(crate) fn is_another(&self, reason: String, until: Instant) {
        self.lock().down = Some(Down { reason, until, is_another: true });
    }

    /// A lane has that memory file.
    pub(crate) fn has_arena(&self, arena: &Arc<Mapping>) {
        let mut counted = self.lock();
        counted.arenas.retain(|it| 0 < it.strong_count());
        counted.arenas.push(Arc::downgrade(arena));
    }

    /// A run took so much longer than the worker has computed.
    pub(crate) fn turned(&self, overhead: Duration) {
        self.turns().0.observe(overhead);
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    /// Looks at the workers that have done something since they were looked at.
    fn look(&mut self, now: Instant) {
        for it in &mut self.living {
            let work = it.vitals.work();
            let is_fresh = it.sample.is_some_and(|it| {
                it.work == work || now.saturating_duration_since(it.at) < SAMPLED_EVERY
            });
            if is_fresh {
                continue;
            }
            if let Some(usage) = Usage::of(it.vitals.pid) {
                it.sample = Some(Sample { at: now, work, usage });
            }
        }
    }

    /// What the memory files of lanes take now: the server gives of it back without a run. One call of the system for
    /// each.
    fn arena_bytes(&self) -> u64 {
        self.arenas.iter().filter_map(Weak::upgrade).map(|it| it.bytes_in_use()).sum()
    }

    fn private_bytes(&self) -> u64 {
        self.living.iter().filter_map(|it| it.sample).map(|it| it.usage.private_bytes).sum()
    }
}

impl ModelProcess for Figures {
    fn figures(&self) -> ProcessFigures {
        let mut counted = self.lock();
        counted.look(Instant::now());
        let serving = counted.living.iter().find(|it| it.serves);
        let is_alive = |it: &&Living| !it.vitals.is_dead();
        let cpu_of_living: Duration =
            counted.living.iter().filter_map(|it| it.sample).map(|it| it.usage.cpu).sum();
        ProcessFigures {
            pid: serving.filter(is_alive).map(|it| it.vitals.pid),
            restarts: counted.restarts,
            starts: counted.starts.0.clone(),
            turn_overheads: self.turns().0.clone(),
            private_bytes: counted.private_bytes(),
            arena_bytes: counted.arena_bytes(),
            cpu_time: counted.cpu_of_ended + cpu_of_living,
            dropped_lines: self.dropped_lines.load(Relaxed),
        }
    }

    fn outage(&self) -> Option<Outage> {
        let (counted, now) = (self.lock(), Instant::now());
        let down = counted.down.as_ref();
        let loading = counted.loading.as_ref().filter(|it| it.worth_until <= now);
        if let Some(loading) = loading {
            // What is down says more.
            let reason = down.map_or(&loading.reason, |it| &it.reason).clone();
            // It may take longer than it has.
            let retry_after = loading.until.saturating_duration_since(now).max(COME_AGAIN);
            return Some(Outage { reason, retry_after });
        }
        if let Some(down) = down {
            let retry_after = down.until.saturating_duration_since(now);
            return Some(Outage { reason: down.reason.clone(), retry_after });
        }
        let tried = counted.tried.as_ref().filter(|it| it.is_busy())?;
        Some(Outage { reason: tried.reason.clone(), retry_after: COME_AGAIN })
    }

    fn ends(&self) -> u64 {
        self.lock().ends
    }

    fn is_to_be_loaded_again(&self) -> bool {
        self.lock().down.as_ref().is_some_and(|it| it.is_another)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        children::Children, launch::Worker, program::Program, sandbox::Sandbox, whose::Whose,
    };

    /// A worker that does nothing until it is let go of.
    fn start(figures: &Arc<Figures>) -> Arc<Worker> {
        let args = ["-c", "exec sleep 600"].map(Into::into).into();
        let program = Program {
            path: "/bin/sh".into(),
            name: "sh".into(),
            args,
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            sandbox: Sandbox::Off,
            kept: Vec::new(),
            temporary: std::env::temp_dir(),
            lacks_directory: Arc::default(),
        };
        let whose = Whose { model: "m".to_owned(), version: 1, device: None };
        Worker::start(&program, &whose, &Children::default(), figures, drop).unwrap().0
    }

    #[test]
    fn the_one_that_serves_is_shown_until_it_ends_and_what_was_counted_stays() {
        let figures = Arc::new(Figures::default());
        assert_eq!(figures.figures(), ProcessFigures::default());
        let old = start(&figures);
        assert_eq!(figures.figures().pid, None, "it has not loaded its model");
        figures.serves(old.pid(), Duration::from_millis(15));
        assert_eq!(figures.figures().pid, Some(old.pid()));
        let new = start(&figures);
        assert_eq!(figures.figures().pid, Some(old.pid()));
        figures.restarted(EndReason::Recycle);
        figures.serves(new.pid(), Duration::from_millis(15));
        drop(old);
        let shown = figures.figures();
        assert_eq!(shown.pid, Some(new.pid()));
        assert_eq!(shown.restarts[EndReason::Recycle as usize], 1);
        assert_eq!(shown.starts.sum(), Duration::from_millis(30));
        assert!(0 < shown.private_bytes);
        new.end(EndReason::Timeout);
        assert_eq!(figures.figures().pid, None);
        assert_eq!(new.end_reason(), EndReason::Timeout);
        drop(new);
        let last = figures.figures();
        assert_eq!((last.pid, last.private_bytes), (None, 0));
        assert!(shown.cpu_time <= last.cpu_time);
        assert_eq!(last.restarts, shown.restarts);
    }

    #[test]
    fn there_is_none_until_another_serves() {
        let figures = Arc::new(Figures::default());
        assert_eq!(figures.outage(), None);
        figures.is_down("too many".into(), Instant::now() + Duration::from_secs(3600));
        let outage = figures.outage().unwrap();
        assert_eq!(outage.reason, "too many");
        assert!(Duration::from_secs(1) < outage.retry_after);
        figures.is_down("too many".into(), Instant::now());
        assert_eq!(figures.outage().unwrap().retry_after, Duration::ZERO);
        let worker = start(&figures);
        assert!(figures.outage().is_some(), "it has not loaded its model");
        assert!(!figures.is_to_be_loaded_again());
        figures.is_another("changed".into(), Instant::now());
        assert!(figures.is_to_be_loaded_again());
        figures.serves(worker.pid(), Duration::ZERO);
        assert_eq!(figures.outage(), None);
        assert!(!figures.is_to_be_loaded_again());
    }

    #[test]
    fn nobody_waits_for_a_load_that_lasts() {
        let figures = Figures::default();
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let soon = figures.loads("it loads".into(), now + hour, now + hour);
        assert_eq!(figures.outage(), None, "it may be done soon");
        drop(soon);
        let late = figures.loads("it loads".into(), now, now);
        let outage = figures.outage().unwrap();
        assert_eq!((&*outage.reason, outage.retry_after), ("it loads", COME_AGAIN));
        figures.is_down("too many".into(), now);
        let outage = figures.outage().unwrap();
        assert_eq!((&*outage.reason, outage.retry_after), ("too many", COME_AGAIN));
        drop(late);
        assert_eq!(figures.outage().unwrap().retry_after, Duration::ZERO);
    }

    #[test]
    fn one_that_has_done_nothing_since_is_not_looked_at_again() {
        let figures = Arc::new(Figures::default());
        let worker = start(&figures);
        let sampled = |now| {
            let mut counted = figures.lock();
            counted.look(now);
            counted.living[0].sample.unwrap().at
        };
        let now = Instant::now();
        assert_eq!(sampled(now), now);
        assert_eq!(sampled(now + 2 * SAMPLED_EVERY), now);
        worker.note_answer(1);
        assert_eq!(sampled(now + SAMPLED_EVERY / 2), now);
        assert_eq!(sampled(now + SAMPLED_EVERY), now + SAMPLED_EVERY);
    }

    #[test]
    fn the_memory_of_lanes_is_what_is_written_of_it_and_not_given_back() {
        let figures = Arc::new(Figures::default());
        let arena = Arc::new(Mapping::create(1 << 20).unwrap());
        figures.has_arena(&arena);
        arena.pages().write(0, &[1; 5000]).unwrap();
        let _worker = start(&figures);
        assert_eq!(figures.figures().arena_bytes, 8192);
        arena.give_back(4096, 4096).unwrap();
        assert_eq!(
            figures.figures().arena_bytes,
            4096,
            "what is given back at rest is not counted"
        );
        drop(arena);
        assert_eq!(figures.figures().arena_bytes, 0);
    }
}
