//! Tables: groups of a configuration on a machine, and the instances that become of them.

use super::*;
use crate::config::pbtxt::ConfigReader;

const NO_DRIVER: NoGpus<'static> = NoGpus { reason: "no driver", is_there: false };

fn number(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

fn defaults() -> ModelDefaults {
    ModelDefaults::default()
}

fn gpus(count: u32) -> Vec<Gpu> {
    let gpu = |number| Gpu {
        number,
        uuid: format!("GPU-{number}"),
        name: "T4".to_owned(),
        memory: None,
        capability: None,
    };
    (0..count).map(gpu).collect()
}

/// The groups in a configuration of this text.
fn groups(text: &str) -> Vec<ModelInstanceGroup> {
    ConfigReader::default().parse_text("config.pbtxt", text).unwrap().instance_group
}

/// Settings of engines for their threads.
const THREADS: [&str; 2] = ["intra_op_thread_count", "INTRA_OP_THREAD_COUNT"];

/// The plan on a machine without GPUs.
fn on_cpu(text: &str, defaults: &ModelDefaults, cpus: usize) -> Plan {
    let places = Places { cpus: number(cpus), gpus: Err(NO_DRIVER), thread_keys: &THREADS };
    plan(&groups(text), &BTreeMap::new(), defaults, places).unwrap()
}

/// Instances, those made at once, threads.
fn shape(plan: &Plan) -> (usize, usize, usize) {
    assert!(plan.devices.iter().all(|it| *it == Device::Cpu));
    (plan.instances().get(), plan.made_at_load.get(), plan.threads.get())
}

/// The plan on a machine with so many GPUs, and 8 processors.
fn on_gpus(text: &str, count: u32) -> Result<Plan, Vec<String>> {
    let gpus = gpus(count);
    let found = if count == 0 { Err(NO_DRIVER) } else { Ok(gpus.as_slice()) };
    plan(
        &groups(text),
        &BTreeMap::new(),
        &defaults(),
        Places { cpus: number(8), gpus: found, thread_keys: &THREADS },
    )
}

/// Numbers of the GPUs of the instances, -1 for the CPU; how many are made at once; threads.
#[track_caller]
fn check(text: &str, count: u32, devices: &[i64], made_at_load: usize, threads: usize) {
    let plan = on_gpus(text, count).unwrap();
    let numbers: Vec<i64> = plan
        .devices
        .iter()
        .map(|it| match it {
            Device::Cpu => -1,
            Device::Gpu(number) => i64::from(*number),
        })
        .collect();
    assert_eq!(numbers, devices);
    assert_eq!((plan.made_at_load.get(), plan.threads.get()), (made_at_load, threads));
}

#[test]
fn without_a_word_two_instances_share_the_processors_and_one_is_made_at_once() {
    assert_eq!(shape(&on_cpu("", &defaults(), 1)), (1, 1, 1));
    assert_eq!(shape(&on_cpu("", &defaults(), 2)), (2, 1, 1));
    assert_eq!(shape(&on_cpu("", &defaults(), 8)), (2, 1, 4));
    assert_eq!(shape(&on_cpu("instance_group { count: 0 }", &defaults(), 8)), (2, 1, 4));
    assert_eq!(shape(&on_cpu("instance_group [ { }, { } ]", &defaults(), 8)), (2, 1, 4));
}

#[test]
fn a_configured_count_is_kept_and_its_threads_fit_the_processors() {
    assert_eq!(shape(&on_cpu("instance_group { count: 3 }", &defaults(), 8)), (3, 3, 2));
    assert_eq!(shape(&on_cpu("instance_group { count: 16 }", &defaults(), 8)), (16, 16, 1));
    assert_eq!(shape(&on_cpu("instance_group [ { count: 3 }, { } ]", &defaults(), 8)), (4, 4, 2));
}

#[test]
fn a_configured_count_beats_the_default_and_the_default_beats_the_choice() {
    let defaults = ModelDefaults {
        instance_count: Some(number(4)),
        intra_op_threads: Some(number(3)),
        ..defaults()
    };
    assert_eq!(shape(&on_cpu("", &defaults, 8)), (4, 4, 3));
    assert_eq!(shape(&on_cpu("instance_group { count: 1 }", &defaults, 8)), (1, 1, 3));
}

#[test]
fn further_instances_are_made_at_once_where_that_is_asked_for() {
    assert_eq!(on_cpu("", &defaults(), 8).made_at_load.get(), 1);
    let eager = ModelDefaults { eager_instances: true, ..defaults() };
    assert_eq!(on_cpu("", &eager, 8).made_at_load.get(), 2);
}

#[test]
fn passive_instances_take_no_part() {
    let text = "instance_group [ { count: 2 }, { count: 5 passive: true } ]";
    assert_eq!(shape(&on_cpu(text, &defaults(), 8)), (2, 2, 4));
    let beside = "instance_group [ { kind: KIND_CPU count: 1 }, { kind: KIND_GPU passive: true } ]";
    // Nor need there be a GPU for them.
    for gpus in [0, 2] {
        check(beside, gpus, &[-1], 1, 8);
        let cpu = PlannedGroup { kind: InstanceKind::Cpu, count: 1, gpus: Vec::new() };
        assert_eq!(on_gpus(beside, gpus).unwrap().groups, [Some(cpu), None]);
    }
    let none = "instance_group: expected a group that is not passive, or none";
    let only = "instance_group [ { kind: KIND_GPU passive: true }, { passive: true } ]";
    assert_eq!(on_gpus(only, 0).unwrap_err(), [none]);
}

#[test]
fn the_counts_of_groups_are_what_runs() {
    let counts = |text: &str, gpus| {
        let plan = on_gpus(text, gpus).unwrap();
        let groups = plan.groups.iter().flatten();
        let counts: Vec<usize> = groups.clone().map(|it| it.count).collect();
        let places = groups.map(|it| it.count * it.gpus.len().max(1));
        assert_eq!(places.sum::<usize>(), plan.devices.len(), "{text}");
        counts
    };
    assert_eq!(counts("", 0), [2]);
    assert_eq!(counts("instance_group [ { kind: KIND_GPU }, { kind: KIND_CPU } ]", 2), [1, 2]);
    let cpu = "{ kind: KIND_CPU }";
    assert_eq!(counts(&format!("instance_group [ {cpu}, {cpu}, {cpu} ]"), 0), [1, 1, 1]);
    assert_eq!(counts("instance_group [ { count: 3 }, { } ]", 0), [3, 1]);
    assert_eq!(counts("instance_group [ { passive: true count: 9 }, { } ]", 0), [2]);
}

#[test]
fn each_group_that_does_not_say_has_the_default_count() {
    let defaults = ModelDefaults { instance_count: Some(number(3)), ..defaults() };
    assert_eq!(shape(&on_cpu("instance_group [ { }, { count: 2 } ]", &defaults, 8)), (5, 5, 1));
}

#[test]
fn the_log_says_of_gpus_and_of_the_cpu_why_there_are_so_many() {
    let text = "instance_group [ { kind: KIND_GPU count: 2 }, { kind: KIND_CPU } ]";
    let expected = "instances: on GPUs instance_group, on the CPU default, further ones when needed; \
                    threads: an equal share of 8 processors";
    assert_eq!(on_gpus(text, 1).unwrap().reason, expected);
}

#[test]
fn the_threads_are_those_that_the_model_asks_for() {
    let defaults = ModelDefaults { intra_op_threads: Some(number(3)), ..defaults() };
    let threads = |key: &str, own: &str| {
        let options = BTreeMap::from([(key.to_owned(), own.to_owned())]);
        let places = Places { cpus: number(8), gpus: Err(NO_DRIVER), thread_keys: &THREADS };
        plan(&[], &options, &defaults, places).unwrap().threads.get()
    };
    for key in THREADS {
        assert_eq!((threads(key, " 5 "), threads(key, "0")), (5, 3));
    }
}

#[test]
fn a_run_beside_which_there_is_no_other_may_have_all_processors_unless_threads_are_given() {
    let wide = |groups: &str, options: &[(&str, &str)], intra_op_threads| {
        let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let defaults = ModelDefaults { intra_op_threads, ..defaults() };
        let places = Places { cpus: number(8), gpus: Err(NO_DRIVER), thread_keys: &THREADS };
        let plan = plan(&self::groups(groups), &options.collect(), &defaults, places).unwrap();
        plan.wide_threads.map(NonZeroUsize::get)
    };
    assert_eq!(wide("", &[], None), Some(8));
    assert_eq!(wide("instance_group { count: 1 }", &[], None), None, "it has all of them");
    assert_eq!(wide("", &[(THREADS[0], "2")], None), None);
    assert_eq!(wide("", &[], Some(number(2))), None);
}

#[test]
fn where_there_are_gpus_a_model_that_says_nothing_has_an_instance_on_each() {
    check("", 1, &[0], 1, 1);
    check("", 4, &[0, 1, 2, 3], 4, 1);
    check("instance_group { kind: KIND_AUTO }", 2, &[0, 1], 2, 1);
    check("", 0, &[-1, -1], 1, 4);
}

#[test]
fn a_count_is_one_of_each_gpu_and_instances_are_spread() {
    check("instance_group { count: 2 }", 2, &[0, 1, 0, 1], 4, 1);
    check("instance_group { kind: KIND_GPU count: 2 gpus: [ 1 ] }", 2, &[1, 1], 2, 1);
    check("instance_group { kind: KIND_AUTO gpus: [ 2, 0 ] }", 3, &[0, 2], 2, 1);
}

#[test]
fn the_default_count_is_one_of_each_gpu_as_well() {
    let (gpus, defaults) =
        (gpus(2), ModelDefaults { instance_count: Some(number(3)), ..defaults() });
    let plan = plan(
        &[],
        &BTreeMap::new(),
        &defaults,
        Places { cpus: number(8), gpus: Ok(&gpus), thread_keys: &THREADS },
    );
    assert_eq!(plan.unwrap().devices_text(), "3 on GPU 0, 3 on GPU 1");
}

#[test]
fn groups_of_several_kinds_add_up_and_only_the_cpus_share_the_processors() {
    let text = "instance_group [ { kind: KIND_CPU count: 2 }, { kind: KIND_GPU count: 1 },
                                 { kind: KIND_GPU gpus: 0 } ]";
    check(text, 2, &[0, 1, 0, -1, -1], 5, 4);
    check("instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU } ]", 1, &[0, -1, -1], 2, 4);
}

#[test]
fn the_cpu_is_the_cpu_whatever_there_is_beside_it() {
    check("instance_group { kind: KIND_CPU }", 2, &[-1, -1], 1, 4);
    check("instance_group { kind: KIND_MODEL count: 1 }", 2, &[-1], 1, 8);
}

#[test]
fn the_error_of_a_missing_gpu_lists_the_present_ones() {
    #[track_caller]
    fn refused(text: &str, count: u32, expected: &[&str]) {
        assert_eq!(on_gpus(text, count).unwrap_err(), expected);
    }
    let three = "instance_group [ { kind: KIND_CPU }, { kind: KIND_GPU gpus: [ 1, 3 ] } ]";
    refused(three, 2, &["instance_group[1]: gpus [ 3 ]: this machine has GPUs 0, 1"]);
    refused(three, 1, &["instance_group[1]: gpus [ 1, 3 ]: this machine has GPU 0"]);
    let none = "KIND_GPU: this machine has no GPU that can be used: no driver";
    refused(three, 0, &[&format!("instance_group[1]: {none}")]);
    let both = "instance_group [ { kind: KIND_GPU }, { gpus: 7 }, { kind: KIND_GPU } ]";
    refused(both, 1, &["instance_group[1]: gpus [ 7 ]: this machine has GPU 0"]);
    let (first, third) =
        (format!("instance_group[0]: {none}"), format!("instance_group[2]: {none}"));
    refused(both, 0, &[&first, &third]);
}

#[test]
fn the_log_says_why_there_is_no_gpu_where_one_was_named() {
    let reason = |text: &str, count| on_gpus(text, count).unwrap().reason;
    let named = reason("instance_group { gpus: 0 }", 0);
    assert!(named.contains("when needed; no GPU can be used: no driver; threads"), "{named}");
    // On a machine for the CPU that would be said of every model.
    assert!(!reason("", 0).contains("no GPU"));
    assert!(!reason("instance_group { gpus: 0 }", 1).contains("no GPU"));
}

#[test]
fn where_gpus_are_hidden_or_unusable_every_model_that_would_run_on_one_says_why_it_does_not() {
    let hidden = NoGpus { reason: "all are hidden", is_there: true };
    let reason = |text: &str| {
        let places = Places { cpus: number(8), gpus: Err(hidden), thread_keys: &THREADS };
        plan(&groups(text), &BTreeMap::new(), &defaults(), places).unwrap().reason
    };
    assert!(reason("").contains("; no GPU can be used: all are hidden; threads"));
    assert!(reason("instance_group { count: 1 }").contains("all are hidden"));
    assert!(!reason("instance_group { kind: KIND_CPU }").contains("hidden"));
}

#[test]
fn planned_groups_are_described_one_by_one() {
    let text = "instance_group [ { kind: KIND_AUTO }, { kind: KIND_MODEL }, { count: 3 gpus: 1 } ]";
    let plan = on_gpus(text, 2).unwrap();
    let group = |kind, count, gpus: &[u32]| Some(PlannedGroup { kind, count, gpus: gpus.to_vec() });
    let expected = [
        group(InstanceKind::Gpu, 1, &[0, 1]),
        group(InstanceKind::Model, 2, &[]),
        group(InstanceKind::Gpu, 3, &[1]),
    ];
    assert_eq!(plan.groups, expected);
    assert_eq!(on_gpus("", 0).unwrap().groups, [group(InstanceKind::Cpu, 2, &[])]);
}

#[test]
fn more_instances_than_anybody_means_are_refused_before_a_place_is_made_for_each() {
    let refused = |text: &str, gpus| on_gpus(text, gpus).map(drop).unwrap_err().join("\n");
    let error = refused("instance_group { count: 1000000000 kind: KIND_CPU }", 0);
    assert!(
        error.contains("count is 1000000000 instances") && error.contains("at most 1024"),
        "{error}"
    );
    refused("instance_group [ { count: 600 kind: KIND_CPU }, { count: 600 kind: KIND_CPU } ]", 0);
    refused("instance_group { count: 600 kind: KIND_GPU }", 2);
    assert_eq!(
        on_gpus("instance_group { count: 512 kind: KIND_GPU }", 2).unwrap().instances().get(),
        1024
    );
    let many = ModelDefaults { instance_count: Some(number(2000)), ..defaults() };
    let places = Places { cpus: number(8), gpus: Err(NO_DRIVER), thread_keys: &THREADS };
    plan(&[], &BTreeMap::new(), &many, places).map(drop).unwrap_err();
}

#[test]
fn devices_are_described_briefly() {
    let text = |config: &str, count| on_gpus(config, count).unwrap().devices_text();
    assert_eq!(text("", 0), "CPU");
    assert_eq!(text("instance_group { count: 2 }", 1), "GPU 0");
    assert_eq!(
        text("instance_group [ { }, { kind: KIND_CPU count: 3 } ]", 2),
        "1 on GPU 0, 1 on GPU 1, 3 on CPU"
    );
}
