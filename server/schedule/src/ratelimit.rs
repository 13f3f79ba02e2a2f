//! Resources that instances of all models share: an instance runs only when what it needs is free. Off unless asked
//! for, and then nothing of this is there.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use backend::Device;

/// How many there are of a resource, where that is set and not found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supply {
    /// Its name; case does not matter.
    pub name: String,
    /// How many.
    pub count: u64,
    /// On which device; `None` for each of them, or for all together where the resource is global. The CPU is 0.
    pub device: Option<u32>,
}

/// Why an instance can never run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceError {
    /// It takes a resource as global that others have on each device, or the other way round.
    Scopes {
        /// Of the resource.
        name: String,
        /// What it is for this instance.
        as_this: &'static str,
        /// What it is for others.
        as_that: &'static str,
    },
    /// It needs more than there is.
    TooFew {
        /// Of the resource.
        name: String,
        /// How many it needs.
        needed: u64,
        /// How many there are.
        supply: u64,
    },
}

impl fmt::Display for ResourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceError::Scopes { name, as_this, as_that } => write!(
                f,
                "resource '{name}' is {as_this} here and {as_that} elsewhere; expected one or the other"
            ),
            ResourceError::TooFew { name, needed, supply } => write!(
                f,
                "resource '{name}': an instance needs {needed}, --rate-limit-resource gives {supply}"
            ),
        }
    }
}

impl std::error::Error for ResourceError {}

/// What one run of an instance needs of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Its name; case does not matter.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Are there so many on all devices together? Else on each.
    pub global: bool,
}

/// What an instance needs for each run, and how it stands to the others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// What it needs.
    pub needs: Vec<Need>,
    /// Of several that could run, the one with the lowest product of its runs and this goes first. 0 is 1.
    pub priority: u32,
}

/// Where a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Everywhere,
    Cpu,
    Gpu(u32),
}

type Key = (String, Scope);

/// Lets instances run when their resources are free.
#[derive(Debug)]
pub struct RateLimiter {
    /// Guards what is used and which instances wait. Never held while anything runs.
    state: Mutex<LimiterState>,
    /// Something was given back, or an instance that waited runs.
    changed: Condvar,
}

/// Plain data: decides which instance may run.
#[derive(Debug, Default)]
struct LimiterState {
    supplies: Vec<Supply>,
    instances: BTreeMap<u64, Registered>,
    used: BTreeMap<Key, u64>,
    /// Instances that want to run, in order of arrival.
    waiting: Vec<u64>,
    next: u64,
}

#[derive(Debug)]
struct Registered {
    needs: Vec<(Key, u64)>,
    priority: u64,
    runs: u64,
}

impl RateLimiter {
    /// Of resources that are not among the supplies there are as many as the instance needs that needs most.
    pub fn new(supplies: Vec<Supply>) -> RateLimiter {
        let state = LimiterState { supplies, ..LimiterState::default() };
        RateLimiter { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Makes an instance known. It is forgotten when the result is dropped.
    ///
    /// # Errors
    /// When it needs more than there is, or takes a resource as global that others have on each device.
    pub fn register(
        self: &Arc<Self>,
        limits: &Limits,
        device: Device,
    ) -> Result<Limited, ResourceError> {
        let number = self.lock().register(limits, device)?;
        Ok(Limited { limiter: self.clone(), number })
    }

    fn lock(&self) -> MutexGuard<'_, LimiterState> {
        // Nothing that panics runs under this lock; if it did, the data would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An instance that runs only when its resources are free.
#[derive(Debug)]
pub struct Limited {
    limiter: Arc<RateLimiter>,
    number: u64,
}

impl Limited {
    /// Waits until the instance may run. What it needs is its own until the permit is dropped. Blocking.
    pub fn acquire(self: Arc<Self>) -> ResourcePermit {
        let mut state = self.limiter.lock();
        state.waiting.push(self.number);
        while !state.admit(self.number) {
            state = self.limiter.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        // The next one may have waited only because this one came first.
        self.limiter.changed.notify_all();
        ResourcePermit(self)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        self.limiter.lock().instances.remove(&self.number);
        self.limiter.changed.notify_all();
    }
}

/// The right to one run.
#[must_use]
#[derive(Debug)]
pub struct ResourcePermit(Arc<Limited>);

impl Drop for ResourcePermit {
    fn drop(&mut self) {
        self.0.limiter.lock().release(self.0.number);
        self.0.limiter.changed.notify_all();
    }
}

impl LimiterState {
    fn register(&mut self, limits: &Limits, device: Device) -> Result<u64, ResourceError> {
        let own = match device {
            Device::Cpu => Scope::Cpu,
            Device::Gpu(number) => Scope::Gpu(number),
        };
        let mut needs: Vec<(Key, u64)> = Vec::with_capacity(limits.needs.len());
        for need in &limits.needs {
            let name = need.name.to_lowercase();
            let place = if need.global { Scope::Everywhere } else { own };
            let known = self.instances.values().flat_map(|it| &it.needs).chain(&needs);
            let is_global = |((_, place), _): &(Key, u64)| *place == Scope::Everywhere;
            if known.filter(|((it, _), _)| *it == name).any(|it| is_global(it) != need.global) {
                let (as_this, as_that) =
                    if need.global { ("global", "per device") } else { ("per device", "global") };
                return Err(ResourceError::Scopes { name: need.name.clone(), as_this, as_that });
            }
            let key = (name, place);
            if let Some(supply) = self.supply(&key)
                && supply < need.count
            {
                let (name, needed) = (need.name.clone(), need.count);
                return Err(ResourceError::TooFew { name, needed, supply });
            }
            needs.push((key, need.count));
        }
        self.next += 1;
        let priority = u64::from(limits.priority.max(1));
        self.instances.insert(self.next, Registered { needs, priority, runs: 0 });
        Ok(self.next)
    }

    /// What was said of a resource; the last word counts, and one on a device before one on all of them.
    fn supply(&self, (name, place): &Key) -> Option<u64> {
        let named = |it: &&Supply| it.name.to_lowercase() == *name;
        let here = |it: &&Supply| match (place, it.device) {
            (Scope::Everywhere, _) => true,
            (Scope::Cpu, Some(device)) => device == 0,
            (Scope::Gpu(number), Some(device)) => device == *number,
            (Scope::Cpu | Scope::Gpu(_), None) => false,
        };
        let mut supplies = self.supplies.iter().rev().filter(named);
        let on_device = supplies.clone().find(here);
        on_device.or_else(|| supplies.find(|it| it.device.is_none())).map(|it| it.count)
    }

    /// How many there are.
    fn capacity(&self, key: &Key) -> u64 {
        self.supply(key).unwrap_or_else(|| {
            let needs = self.instances.values().flat_map(|it| &it.needs);
            needs.filter(|(it, _)| it == key).map(|(_, count)| *count).max().unwrap_or(0)
        })
    }

    fn fits(&self, instance: &Registered) -> bool {
        let free =
            |key: &Key| self.capacity(key).saturating_sub(self.used.get(key).copied().unwrap_or(0));
        instance.needs.iter().all(|(key, count)| *count <= free(key))
    }

    /// Lets a waiting instance run, if it is the first of those that could: then what it needs is used.
    fn admit(&mut self, number: u64) -> bool {
        let could = self.waiting.iter().enumerate().filter_map(|(at, it)| {
            let instance = self.instances.get(it).filter(|it| self.fits(it))?;
            Some((instance.runs.saturating_mul(instance.priority), at, *it))
        });
        let Some((_, at, first)) = could.min() else { return false };
        if first != number {
            return false;
        }
        self.waiting.remove(at);
        if let Some(instance) = self.instances.get_mut(&number) {
            instance.runs += 1;
            for (key, count) in &instance.needs {
                *self.used.entry(key.clone()).or_default() += count;
            }
        }
        true
    }

    fn release(&mut self, number: u64) {
        let Some(instance) = self.instances.get(&number) else { return };
        for (key, count) in &instance.needs {
            if let Some(used) = self.used.get_mut(key) {
                *used = used.saturating_sub(*count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(name: &str, count: u64, global: bool) -> Limits {
        Limits { needs: vec![Need { name: name.into(), count, global }], priority: 1 }
    }

    fn supply(name: &str, count: u64, device: Option<u32>) -> Supply {
        Supply { name: name.into(), count, device }
    }

    /// Registers instances with these limits, on the CPU.
    fn state(supplies: &[Supply], limits: &[Limits]) -> (LimiterState, Vec<u64>) {
        let mut state = LimiterState { supplies: supplies.to_vec(), ..LimiterState::default() };
        let register = |it| state.register(it, Device::Cpu).unwrap();
        let numbers = limits.iter().map(register).collect();
        (state, numbers)
    }

    /// Which of these may run, tried in this order?
    fn admitted(state: &mut LimiterState, numbers: &[u64]) -> Vec<bool> {
        state.waiting = numbers.to_vec();
        let admitted = numbers.iter().map(|it| state.admit(*it)).collect();
        state.waiting.clear();
        admitted
    }

    #[test]
    fn by_default_there_is_as_much_as_the_greediest_instance_needs() {
        let (mut state, numbers) =
            state(&[], &[need("R", 2, false), need("r", 1, false), need("R", 1, false)]);
        assert_eq!(admitted(&mut state, &numbers[1..]), [true, true]);
        assert_eq!(admitted(&mut state, &numbers[..1]), [false]);
        state.release(numbers[1]);
        state.release(numbers[2]);
        assert_eq!(admitted(&mut state, &numbers), [true, false, false]);
    }

    #[test]
    fn the_fewest_runs_times_priority_go_first() {
        let slow = Limits { priority: 3, ..need("R", 1, true) };
        let (mut state, numbers) = state(&[], &[slow, need("R", 1, true)]);
        let mut order = Vec::new();
        for _ in 0..8 {
            state.waiting = numbers.clone();
            let first = *numbers.iter().find(|it| state.admit(**it)).unwrap();
            state.release(first);
            order.push(numbers.iter().position(|it| *it == first).unwrap());
        }
        // Of equals, the one that came first.
        assert_eq!(order, [0, 1, 1, 1, 0, 1, 1, 1]);
    }

    #[test]
    fn what_is_said_of_a_resource_bounds_it() {
        let supplies = [supply("r", 3, None), supply("R", 5, Some(1))];
        let (mut state, numbers) = state(&supplies, &vec![need("R", 1, false); 4]);
        assert_eq!(admitted(&mut state, &numbers), [true, true, true, false]);
        assert_eq!(state.capacity(&("r".into(), Scope::Gpu(1))), 5);
        assert_eq!(state.capacity(&("r".into(), Scope::Gpu(0))), 3);
        let error = state.register(&need("R", 4, false), Device::Gpu(0)).unwrap_err().to_string();
        assert_eq!(error, "resource 'R': an instance needs 4, --rate-limit-resource gives 3");
        assert!(state.register(&need("R", 4, false), Device::Gpu(1)).is_ok());
    }

    #[test]
    fn devices_do_not_share_what_is_not_global() {
        let mut state = LimiterState::default();
        let mut on = |limits: &Limits, device| state.register(limits, device).unwrap();
        let own = [on(&need("a", 1, false), Device::Gpu(0)), on(&need("a", 1, false), Device::Cpu)];
        let all = [on(&need("b", 1, true), Device::Gpu(0)), on(&need("b", 1, true), Device::Cpu)];
        assert_eq!(admitted(&mut state, &own), [true, true]);
        assert_eq!(admitted(&mut state, &all), [true, false]);
    }

    #[test]
    fn a_resource_is_global_for_all_or_for_none() {
        let (mut state, _) = state(&[], &[need("R", 1, true)]);
        let error = state.register(&need("r", 1, false), Device::Cpu).unwrap_err().to_string();
        assert_eq!(
            error,
            "resource 'r' is per device here and global elsewhere; expected one or the other"
        );
    }

    #[test]
    fn a_permit_that_is_dropped_lets_the_next_run() {
        let limiter = Arc::new(RateLimiter::new(Vec::new()));
        let limited = || Arc::new(limiter.register(&need("R", 1, true), Device::Cpu).unwrap());
        let (first, second) = (limited(), limited());
        let permit = first.clone().acquire();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(second.clone().acquire()));
            while limiter.lock().waiting.is_empty() && !waits.is_finished() {
                std::thread::yield_now();
            }
            assert!(!waits.is_finished());
            drop(permit);
        });
        drop(first);
        assert_eq!(limiter.lock().instances.len(), 1);
    }
}
