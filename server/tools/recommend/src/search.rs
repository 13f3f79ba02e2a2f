//! The search of a default job: which settings are tried, in the order that pays, and which are left out. Pure but for
//! the trials, which are a function of the caller's.
//!
//! First the server's own settings, then instances times threads that fill the processors, for a moment each; on a GPU,
//! where threads matter little, numbers of instances. Other forms of the model, such as one in FP16, are tried with
//! what is best so far; then whether threads that wait for work of a run spin, where the engine has such threads; and
//! then batching. The server's own settings and the best of the others are finalists, which are measured for their full
//! time; so is the second, if it may be the best: if it carries nearly as much as that, and more than the server's own.

use crate::{
    prices::Instance,
    setting::{INSTANCES, MERGES, OVER_CONFIG, ROWS, SPINS, THREADS, Variables},
};

/// What a server is told; what is absent it finds out by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Knobs {
    /// Copies of the model that run at a time.
    pub instances: Option<usize>,
    /// Threads of each.
    pub threads: Option<usize>,
    /// Rows of a run at most.
    pub batch: Option<usize>,
    /// Threads of ONNX Runtime that wait for work of a run spin, where they would sleep.
    pub spins: bool,
    /// Which of the other forms of the model; the one that was given where none is said.
    pub form: Option<usize>,
}

impl Knobs {
    /// The variables that say so. `forms` are those of the other forms of the model; `config_says`: its
    /// configuration says some of it, too.
    pub fn environment(&self, forms: &[(String, String)], config_says: bool) -> Variables {
        let knobs = [(INSTANCES, self.instances), (THREADS, self.threads), (ROWS, self.batch)];
        let set =
            |(name, value): (&str, Option<usize>)| Some((name.to_owned(), value?.to_string()));
        let form = self.form.and_then(|it| forms.get(it)).cloned();
        let pair = |it: [&str; 2]| it.map(str::to_owned).into();
        let spins = self.spins.then(|| pair(SPINS));
        let numbers: Variables = knobs.into_iter().filter_map(set).collect();
        let over = (config_says && !numbers.is_empty()).then(|| pair(OVER_CONFIG));
        let merges = config_says && self.batch.is_some_and(|it| 1 < it);
        let merges = merges.then(|| pair(MERGES));
        numbers.into_iter().chain(merges).chain(over).chain(spins).chain(form).collect()
    }

    /// Has a run threads that may wait for work?
    fn has_pool(&self) -> bool {
        self.threads.is_some_and(|it| it > 1)
    }
}

/// The engine whose threads may spin.
pub const SPINNER: &str = "onnxruntime";

/// What is searched.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    /// The machine.
    pub machine: Instance,
    /// Other forms of the model.
    pub forms: usize,
    /// Has the engine threads that may spin?
    pub spins: bool,
}

/// A second finalist carries no less than this share of the best throughput.
const NEAR: f64 = 0.9;
/// Settings that are measured for their full time at most, besides the server's own.
const FINALISTS: usize = 2;
/// The same with the server's own.
pub const MOST_FINALISTS: usize = 1 + FINALISTS;
/// Rows of a run that are tried.
const BATCHES: [usize; 3] = [1, 8, 32];

/// Instances that are tried on a GPU; threads are the server's choice.
const ON_GPU: [usize; 3] = [1, 2, 4];

impl Space {
    /// Settings that are tried for a moment at most, the server's own among them.
    pub fn most_probes(&self) -> usize {
        let pool = tuples(self.machine).iter().any(Knobs::has_pool);
        1 + tuples(self.machine).len()
            + self.forms
            + usize::from(self.spins && pool)
            + BATCHES.len()
    }
}

/// Looks for the best settings: the finalists, the server's own first, which carry `own` replies per second. `probe`
/// says how many others carry for a moment; `None` where they cannot be recommended. `skip` is told what is left out,
/// and why.
pub fn finalists(
    space: &Space,
    own: f64,
    mut probe: impl FnMut(Knobs) -> Option<f64>,
    mut skip: impl FnMut(Knobs, &str),
) -> Vec<Knobs> {
    let mut tried: Vec<(Knobs, f64)> = Vec::new();
    for knobs in tuples(space.machine) {
        tried.extend(probe(knobs).map(|it| (knobs, it)));
    }
    sort(&mut tried);
    if let Some(&(best, _)) = tried.first() {
        for form in 0..space.forms {
            let knobs = Knobs { form: Some(form), ..best };
            tried.extend(probe(knobs).map(|it| (knobs, it)));
        }
        sort(&mut tried);
    }
    if space.spins {
        match spinning(&tried) {
            Ok(knobs) => tried.extend(probe(knobs).map(|it| (knobs, it))),
            Err((knobs, why)) => skip(knobs, why),
        }
        sort(&mut tried);
    }
    if let Some(&(best, _)) = tried.first() {
        for batch in BATCHES {
            let knobs = Knobs { batch: Some(batch), ..best };
            tried.extend(probe(knobs).map(|it| (knobs, it)));
        }
        sort(&mut tried);
    }
    let highest = tried.first().map_or(0.0, |it| it.1);
    let mut finalists = vec![Knobs::default()];
    for (place, (knobs, rate)) in tried.into_iter().enumerate() {
        if rate < NEAR * highest {
            skip(knobs, "it carries less than 90 % of the best for a moment");
        } else if place > 0 && rate <= own {
            skip(knobs, "the server's own settings carry as much for a moment");
        } else if place >= FINALISTS {
            skip(knobs, "others carry more for a moment");
        } else {
            finalists.push(knobs);
        }
    }
    finalists
}

/// The setting with which spinning is tried: the best one whose runs have several threads. Where it carries far less
/// than the best of all, waiting is not what it lacks, and it is not tried.
fn spinning(tried: &[(Knobs, f64)]) -> Result<Knobs, (Knobs, &'static str)> {
    let highest = tried.first().map_or(0.0, |it| it.1);
    let spins = |knobs: Knobs| Knobs { spins: true, ..knobs };
    match tried.iter().find(|it| it.0.has_pool()) {
        Some(&(knobs, rate)) if rate >= NEAR * highest => Ok(spins(knobs)),
        Some(&(knobs, _)) => Err((
            spins(knobs),
            "not tried: runs of several threads carry less than 90 % of the best without it",
        )),
        None => Err((spins(Knobs::default()), "not tried: no setting has runs of several threads")),
    }
}

/// Instances times threads that fill the processors, and one of each; on a GPU instances alone.
fn tuples(machine: Instance) -> Vec<Knobs> {
    if machine.gpu {
        return ON_GPU.map(|it| Knobs { instances: Some(it), ..Knobs::default() }).into();
    }
    let cpus = machine.cpus;
    let knobs = |instances, threads| Knobs {
        instances: Some(instances),
        threads: Some(threads),
        ..Knobs::default()
    };
    let mut tuples: Vec<Knobs> = Vec::new();
    let mut instances = 1;
    while instances < cpus {
        tuples.push(knobs(instances, cpus / instances));
        instances *= 2;
    }
    tuples.push(knobs(cpus, 1));
    if cpus > 1 {
        tuples.push(knobs(1, 1));
    }
    tuples
}

fn sort(tried: &mut [(Knobs, f64)]) {
    tried.sort_by(|a, b| b.1.total_cmp(&a.1));
}

#[cfg(test)]
mod tests;
