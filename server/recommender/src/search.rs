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
    setting::{INSTANCES, ROWS, THREADS, Variables},
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
    /// The variables that say so; `forms` are those of the other forms of the model.
    pub fn environment(&self, forms: &[(String, String)]) -> Variables {
        let knobs = [(INSTANCES, self.instances), (THREADS, self.threads), (ROWS, self.batch)];
        let set =
            |(name, value): (&str, Option<usize>)| Some((name.to_owned(), value?.to_string()));
        let form = self.form.and_then(|it| forms.get(it)).cloned();
        let spins = self.spins.then(|| SPINS.map(str::to_owned).into());
        knobs.into_iter().filter_map(set).chain(spins).chain(form).collect()
    }

    /// Has a run threads that may wait for work?
    fn has_pool(&self) -> bool {
        self.threads.is_some_and(|it| it > 1)
    }
}

/// The engine whose threads may spin.
pub const SPINNER: &str = "onnxruntime";
/// The variable that has them do so, and its value.
pub const SPINS: [&str; 2] =
    ["MUSTER_BACKEND_CONFIG", "onnxruntime,session.intra_op.allow_spinning=1"];

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
mod tests {
    use super::*;

    fn processors(cpus: usize) -> Instance {
        Instance { cpus, gpu: false, price_per_hour: None }
    }

    #[test]
    fn on_a_gpu_numbers_of_instances_are_tried_and_threads_are_left_to_the_server() {
        let machine = Instance { gpu: true, ..processors(16) };
        let mut tried = Vec::new();
        let probe = |knobs: Knobs| {
            tried.push(knobs);
            Some(knobs.instances.unwrap_or(1) as f64 * knobs.batch.unwrap_or(4) as f64)
        };
        let space = Space { machine, forms: 0, spins: false };
        let finalists = finalists(&space, 1.0, probe, |_, _| ());
        assert_eq!(1 + tried.len(), space.most_probes());
        assert!(tried.iter().all(|it| it.threads.is_none()), "{tried:?}");
        let instances: Vec<_> = tried[..3].iter().map(|it| it.instances).collect();
        assert_eq!(instances, [Some(1), Some(2), Some(4)]);
        assert_eq!((finalists[1].instances, finalists[1].batch), (Some(4), Some(32)));
    }

    /// Cost of the whole grid, in full trials, and what the search spent and found of the best.
    fn find(cpus: usize, mut rate: impl FnMut(Knobs) -> f64) -> (f64, f64) {
        const PROBE: f64 = 0.1;
        let mut grid = tuples(processors(cpus));
        grid.push(Knobs::default());
        let all = grid
            .iter()
            .flat_map(|it| [None, Some(1), Some(8), Some(32)].map(|batch| Knobs { batch, ..*it }));
        let all = all.flat_map(|it| [false, true].map(|spins| Knobs { spins, ..it }));
        let all: Vec<Knobs> = all.filter(|it| it.has_pool() || !it.spins).collect();
        let best = all.iter().map(|it| rate(*it)).fold(0.0, f64::max);
        let own = rate(Knobs::default());
        let mut spent = PROBE;
        let finalists = finalists(
            &Space { machine: processors(cpus), forms: 0, spins: true },
            own,
            |knobs| {
                spent += PROBE;
                Some(rate(knobs))
            },
            |_, _| (),
        );
        spent += finalists.len() as f64;
        let found = finalists.into_iter().map(&mut rate).fold(0.0, f64::max);
        (found / best, spent / all.len() as f64)
    }

    /// What the server does by itself: an instance of one thread for each processor.
    fn automatic(knobs: Knobs, cpus: usize) -> (f64, f64, f64) {
        let of = |it: Option<usize>, usual: usize| it.unwrap_or(usual) as f64;
        (of(knobs.instances, cpus), of(knobs.threads, 1), of(knobs.batch, 4))
    }

    #[test]
    fn landscapes_with_a_known_best_are_climbed_in_a_quarter_of_the_time() {
        let cpus = 8;
        type Landscape = (&'static str, Box<dyn FnMut(Knobs) -> f64>);
        let mut noise = 1_u64;
        let mut drift = 1.0;
        let landscapes: Vec<Landscape> = vec![
            (
                "linear",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    100.0 * (instances * threads).min(cpus as f64)
                }),
            ),
            (
                "steep gain of batches",
                Box::new(move |it| {
                    let (instances, threads, batch) = automatic(it, cpus);
                    100.0 * (instances * threads).min(cpus as f64) * batch / (1.0 + 0.05 * batch)
                }),
            ),
            (
                "cliff of threads",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    let penalty = if threads > 2.0 { 20.0 } else { 1.0 };
                    100.0 * (instances * threads).min(cpus as f64) / penalty
                }),
            ),
            (
                "cliff of memory",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    if instances > 4.0 { 5.0 } else { 100.0 * instances * threads.powf(0.8) }
                }),
            ),
            (
                "many small operators whose threads wait for each other",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    let waits = if it.spins { 1.0 } else { 0.7 };
                    100.0 * instances * threads * if threads > 1.0 { waits * 1.5 } else { 1.0 }
                }),
            ),
            (
                "noisy",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let share = (noise >> 40) as f64 / (1 << 24) as f64;
                    100.0 * instances * threads.powf(0.5) * (0.99 + 0.02 * share)
                }),
            ),
            (
                "drifting",
                Box::new(move |it| {
                    let (instances, threads, _) = automatic(it, cpus);
                    drift *= 0.9995;
                    100.0 * instances * threads.powf(0.5) * drift
                }),
            ),
        ];
        for (name, rate) in landscapes {
            let (found, spent) = find(cpus, rate);
            assert!(found >= 0.97, "{name}: {found} of the best");
            assert!(spent <= 0.25, "{name}: {spent} of the time");
        }
    }

    #[test]
    fn another_form_of_the_model_is_tried_with_the_best_so_far_and_batches_with_the_best_form() {
        let rate = |knobs: Knobs| {
            let form = if knobs.form == Some(1) { 2.0 } else { 1.0 };
            let batch = if knobs.batch == Some(8) { 1.5 } else { 1.0 };
            Some(form * batch * knobs.instances.unwrap_or(1) as f64)
        };
        let space = Space { machine: processors(2), forms: 2, spins: false };
        let finalists = finalists(&space, 1.0, rate, |_, _| ());
        let best = finalists[1];
        assert_eq!((best.form, best.batch, best.instances), (Some(1), Some(8), Some(2)));
        let forms = ["a.onnx", "b.onnx"].map(|it| ("MODEL_PATH".to_owned(), it.to_owned()));
        assert_eq!(best.environment(&forms).pop(), Some(forms[1].clone()));
    }

    #[test]
    fn a_second_finalist_carries_nearly_as_much_as_the_best_and_more_than_the_servers_own_settings()
    {
        let check = |own: f64, second: f64, finalists_expected: usize| {
            let rate = |knobs: Knobs| match (knobs.instances, knobs.threads, knobs.batch) {
                (None, ..) => own,
                (Some(2), _, None) => 100.0,
                (Some(1), Some(2), _) => second,
                _ => 1.0,
            };
            let mut left_out = Vec::new();
            let found = finalists(
                &Space { machine: processors(2), forms: 0, spins: false },
                own,
                |it| Some(rate(it)),
                |knobs, why| left_out.push((knobs, why.to_owned())),
            );
            assert_eq!(found.len(), finalists_expected, "{own} {second}: {found:?} {left_out:?}");
            assert_eq!((found[0], found[1].instances), (Knobs::default(), Some(2)));
        };
        check(90.0, 95.0, 3);
        check(95.0, 95.0, 2);
        check(50.0, 89.0, 2);
        // The best of the others is measured although the server's own settings carry more for a moment.
        check(120.0, 95.0, 2);
    }

    #[test]
    fn what_cannot_be_recommended_is_no_finalist() {
        // Faster with two threads, and wrong.
        let mut probes = 0;
        let probe = |knobs: Knobs| {
            probes += 1;
            (knobs.threads != Some(2)).then_some(1.0)
        };
        let space = Space { machine: processors(2), forms: 3, spins: false };
        let finalists = finalists(&space, 1.0, probe, |_, _| ());
        assert_eq!(1 + probes, space.most_probes());
        assert!(finalists.len() > 1 && finalists.len() <= MOST_FINALISTS, "{finalists:?}");
        assert!(finalists.iter().all(|it| it.threads != Some(2)), "{finalists:?}");
    }

    /// What spinning is tried with, and whether it is a finalist, where two threads carry this share of the best.
    fn spun(two_threads: f64, gain: f64) -> (Vec<Knobs>, Vec<Knobs>, Vec<String>) {
        let (mut tried, mut left_out) = (Vec::new(), Vec::new());
        let rate = |knobs: Knobs| match (knobs.has_pool(), knobs.spins) {
            (false, _) => 100.0,
            (true, false) => 100.0 * two_threads,
            (true, true) => 100.0 * two_threads * gain,
        };
        let probe = |knobs| {
            tried.push(knobs);
            Some(rate(knobs))
        };
        let space = Space { machine: processors(2), forms: 0, spins: true };
        let skip = |knobs: Knobs, why: &str| {
            if knobs.spins {
                left_out.push(why.to_owned());
            }
        };
        let found = finalists(&space, 50.0, probe, skip);
        assert!(tried.len() < space.most_probes(), "{tried:?}");
        tried.retain(|it| it.spins);
        (tried, found, left_out)
    }

    #[test]
    fn threads_that_spin_are_tried_where_runs_of_several_threads_carry_nearly_as_much_as_the_best()
    {
        let (tried, found, _) = spun(0.95, 1.2);
        assert_eq!((tried[0].instances, tried[0].threads), (Some(1), Some(2)));
        assert!(found[1].spins, "{found:?}");
        // Batches are tried with what is best.
        assert_eq!(tried.len(), 1 + BATCHES.len(), "{tried:?}");
        let (tried, found, left_out) = spun(0.95, 0.5);
        assert!(tried.len() == 1 && !found.iter().any(|it| it.spins), "{found:?}");
        assert!(left_out[0].contains("carries less than 90 %"), "{left_out:?}");
        let (tried, _, left_out) = spun(0.5, 3.0);
        assert!(tried.is_empty() && left_out[0].starts_with("not tried: runs of"), "{left_out:?}");
        let variables = Knobs { spins: true, ..Knobs::default() }.environment(&[]);
        assert_eq!(variables, [(SPINS[0].to_owned(), SPINS[1].to_owned())]);
    }

    #[test]
    fn on_one_processor_no_thread_can_spin_and_that_is_said() {
        let space = Space { machine: processors(1), forms: 0, spins: true };
        let mut left_out = Vec::new();
        finalists(&space, 1.0, |_| Some(1.0), |knobs, why| left_out.push((knobs, why.to_owned())));
        let said = left_out.iter().find(|it| it.0.spins).map(|it| it.1.as_str());
        assert_eq!(said, Some("not tried: no setting has runs of several threads"));
        assert_eq!(space.most_probes(), 1 + 1 + BATCHES.len());
    }
}
