//! Facts of settings: what is read, and what is refused in which words.

use backend::Placement;

use super::*;

fn read(options: &[(&str, &str)]) -> Result<Settings, String> {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let threads = NonZeroUsize::new(3).unwrap();
    Settings::read(&options.collect(), threads).map_err(|it| it.to_string())
}

#[track_caller]
fn refused(key: &str, value: &str, text: &str) {
    assert_eq!(read(&[(key, value)]).unwrap_err(), text);
}

#[test]
fn without_options_the_threads_are_the_share_of_the_instance_and_do_not_spin() {
    let settings = read(&[]).unwrap();
    assert_eq!((settings.intra_threads, settings.inter_threads), (3, 3));
    assert_eq!((settings.parallel, settings.arena), (false, true));
    assert_eq!(settings.graph_level, GraphLevel::All);
    assert_eq!(settings.entries[INTRA_OP_SPINNING], "0");
}

#[test]
fn zero_threads_mean_the_default_and_other_numbers_themselves() {
    let settings =
        read(&[("intra_op_thread_count", "0"), ("inter_op_thread_count", " 7 ")]).unwrap();
    assert_eq!((settings.intra_threads, settings.inter_threads), (3, 7));
}

#[test]
fn a_shared_session_has_the_helpers_of_all_its_instances() {
    let pools = |threads: &str, instances| {
        let options = [("intra_op_thread_count", threads), ("inter_op_thread_count", threads)];
        let settings = read(&options).unwrap().shared_by(NonZeroUsize::new(instances).unwrap());
        assert_eq!(settings.intra_threads, settings.inter_threads);
        settings.intra_threads
    };
    assert_eq!((pools("4", 1), pools("4", 2), pools("2", 8)), (4, 7, 9));
    // Without a pool before, without one now.
    assert_eq!(pools("1", 8), 1);
    assert_eq!(pools("1024", 2), 1024);
}

/// Threads of a run that may take all of four processors, beside a session with so many, and does the pool spin?
fn wide(usual: usize, options: &[(&str, &str)]) -> Option<(usize, Option<String>)> {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let source = ModelSource {
        options: options.collect(),
        wide_threads: NonZeroUsize::new(4),
        ..ModelSource::new("m", "m.onnx")
    };
    let settings = Settings::of(&source, Device::Cpu).unwrap();
    let wide = Settings { intra_threads: usual, ..settings }.wide(&source).unwrap()?;
    let spin = match &*wide.entries[INTRA_OP_SPINNING] {
        "1" => Some(wide.entries[SPIN_DURATION].clone()),
        _ => None,
    };
    Some((wide.intra_threads, spin))
}

#[test]
fn a_run_that_may_take_all_processors_has_threads_that_spin_for_a_while_unless_told_otherwise() {
    let threads = |it| Some((it, Some(WIDE_SPIN.to_owned())));
    assert_eq!(wide(1, &[]), threads(4));
    assert_eq!(wide(2, &[]), threads(4));
    assert_eq!(wide(3, &[]), None, "hardly more");
    assert_eq!(wide(2, &[("intra_op_thread_count", "2")]), None, "somebody has said how many");
    assert_eq!(wide(3, &[(WIDE_INTRA_OP_THREADS, "4")]), threads(4));
    assert_eq!(wide(1, &[(WIDE_INTRA_OP_THREADS, "1")]), None);
    assert_eq!(wide(1, &[(AFFINITIES, "1")]), None);
    assert_eq!(wide(1, &[("session.optimized_model_filepath", "/tmp/m.onnx")]), None);
    assert_eq!(wide(1, &[(INTRA_OP_SPINNING, "0")]), Some((4, None)));
    assert_eq!(wide(1, &[(SPIN_DURATION, "50")]), Some((4, Some("50".to_owned()))));
}

#[test]
fn graph_levels_are_tritons() {
    for (value, level) in [
        ("-1", GraphLevel::Basic),
        ("0", GraphLevel::All),
        ("1", GraphLevel::Extended),
        ("2", GraphLevel::Off),
    ] {
        assert_eq!(read(&[(GRAPH_LEVEL, value)]).unwrap().graph_level, level);
    }
}

#[test]
fn keys_of_the_runtime_are_passed_on_and_foreign_ones_left_alone() {
    const PREPACKING: &str = "session.disable_prepacking";
    let given =
        [(INTRA_OP_SPINNING, "1"), (PREPACKING, "y"), (GRAPH_LEVEL, "2"), ("team", "search")];
    let entries = read(&given).unwrap().entries;
    assert_eq!(entries[INTRA_OP_SPINNING], "1");
    assert_eq!(entries[PREPACKING], "y");
    assert!(!entries.contains_key(GRAPH_LEVEL) && !entries.contains_key("team"));
}

#[test]
fn bad_values_are_named_with_what_was_expected() {
    refused(
        "intra_op_thread_count",
        "many",
        "parameter intra_op_thread_count is 'many', expected a whole number from 0 to 1024",
    );
    refused("execution_mode", "2", "parameter execution_mode is '2', expected 0 or 1");
    refused(
        GRAPH_LEVEL,
        "3",
        "parameter optimization.graph.level is '3', expected a whole number from -1 to 2",
    );
    refused(
        SHRINKAGE,
        "cpu0",
        "parameter memory.enable_memory_arena_shrinkage is 'cpu0', expected devices such as cpu:0, or \
         cpu:0;gpu:0",
    );
}

fn source(devices: &[Device], options: &[(&str, &str)]) -> ModelSource {
    let options = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned()));
    let instances = NonZeroUsize::MIN;
    ModelSource {
        options: options.collect(),
        default_threads: NonZeroUsize::new(3).unwrap(),
        placements: devices.iter().map(|&device| Placement { device, instances }).collect(),
        ..ModelSource::new("m", "m.onnx")
    }
}

fn on(device: Device, devices: &[Device], options: &[(&str, &str)]) -> Result<Settings, String> {
    Settings::of(&source(devices, options), device).map_err(|it| it.to_string())
}

#[test]
fn a_session_on_a_gpu_has_providers_on_that_gpu_and_one_on_the_cpu_has_none() {
    let both = [Device::Gpu(1), Device::Cpu];
    let gpu = on(Device::Gpu(1), &both, &[]).unwrap();
    assert_eq!(gpu.providers.len(), 1);
    assert_eq!(
        (gpu.log_name.as_str(), on(Device::Cpu, &both, &[]).unwrap().log_name.as_str()),
        ("m", "m")
    );
    assert_eq!(gpu.providers[0].options["device_id"], "1");
    assert_eq!(on(Device::Cpu, &both, &[]).unwrap().providers, []);
}

#[test]
fn beside_instances_on_the_cpu_those_on_gpus_have_one_thread_unless_told() {
    let threads = |devices: &[Device], options: &[(&str, &str)]| {
        on(Device::Gpu(0), devices, options).unwrap().intra_threads
    };
    let own = [("intra_op_thread_count", "5")];
    assert_eq!(threads(&[Device::Gpu(0), Device::Cpu], &[]), 1);
    assert_eq!(threads(&[Device::Gpu(0)], &[]), 3);
    assert_eq!(threads(&[Device::Gpu(0), Device::Cpu], &own), 5);
}

#[test]
fn a_session_is_the_same_where_those_on_other_devices_are_in_other_processes() {
    let devices = [Device::Gpu(0), Device::Gpu(1), Device::Cpu];
    let source = source(&devices, &[(SHRINKAGE, "gpu:0;gpu:1")]);
    for (device, apart) in devices.into_iter().zip(source.by_device()) {
        let settings = |source: &ModelSource| {
            let it = Settings::of(source, device).unwrap();
            (it.intra_threads, it.shrinkage, it.providers)
        };
        assert_eq!(settings(&apart), settings(&source), "{device:?}");
    }
}

#[test]
fn arenas_shrink_where_the_session_is() {
    let given = [(SHRINKAGE, "cpu:0; gpu:0;gpu:1")];
    let gpus = [Device::Gpu(0), Device::Gpu(1)];
    let shrinks = |device, devices: &[Device]| Ok(on(device, devices, &given)?.shrinkage);
    assert_eq!(shrinks(Device::Gpu(1), &gpus), Ok(Some("cpu:0;gpu:1".to_owned())));
    assert_eq!(shrinks(Device::Cpu, &[Device::Cpu]), Ok(Some("cpu:0".to_owned())));
    assert_eq!(
        shrinks(Device::Gpu(0), &gpus[..1]),
        Err::<Option<String>, _>(format!("{SHRINKAGE} names gpu:1, where no instance runs"))
    );
}

#[test]
fn a_slip_in_a_setting_for_gpus_is_told_on_the_cpu_as_well() {
    let text = on(Device::Cpu, &[Device::Cpu], &[("gpu_mem_limit", "much")]).unwrap_err();
    assert!(text.contains("gpu_mem_limit is 'much'"), "{text}");
}

#[test]
fn where_memory_is_scarce_the_arena_of_the_host_shrinks_too() {
    let trimmed = |shrinkage: Option<&str>, arena| {
        let settings = read(&[]).unwrap();
        let shrinkage = shrinkage.map(str::to_owned);
        Settings { shrinkage, arena, ..settings }.trimmed()
    };
    assert_eq!(trimmed(None, true).as_deref(), Some("cpu:0"));
    assert_eq!(trimmed(Some("gpu:1"), true).as_deref(), Some("cpu:0;gpu:1"));
    assert_eq!(trimmed(Some("cpu:0;gpu:1"), true), None);
    assert_eq!(trimmed(None, false), None);
}

#[test]
fn an_arena_that_is_off_cannot_shrink() {
    assert!(read(&[("enable_mem_arena", "0"), (SHRINKAGE, "cpu:0")]).is_err());
}
