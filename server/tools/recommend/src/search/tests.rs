//! Landscapes whose best settings are known, and what is tried of them.

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
    assert_eq!(best.environment(&forms, false).pop(), Some(forms[1].clone()));
}

#[test]
fn a_second_finalist_carries_nearly_as_much_as_the_best_and_more_than_the_servers_own_settings() {
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
fn threads_that_spin_are_tried_where_runs_of_several_threads_carry_nearly_as_much_as_the_best() {
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
    let variables = Knobs { spins: true, ..Knobs::default() }.environment(&[], false);
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
