//! Where instances run, by a fake engine on machines with and without GPUs.

use std::{
    fs,
    sync::{Mutex, MutexGuard},
};

use backend::{
    BackendError, Batch, DataType, Device, Instance, Model, ModelSource, ModelSpec, NamedTensor,
    Placement, Stop, TensorSpec,
};

use super::*;
use crate::{
    load::{
        extra_inputs::ExtraInputs,
        instances, load_limit,
        load_settings::LoadSettings,
        placement::{Places, plan},
    },
    settings::{model_defaults::ModelDefaults, repository::Repository},
};
use machine::gpus::{Gpu, Gpus, Lack};
use schedule::slot::Slot;
use schedule::{Busy, SchedulingSettings, admission::LongestStay};
use serving::{manager::ModelManager, state::State};

/// What of an engine does not work on GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    Load,
    Instances,
    Runs,
    /// There is no memory for instances.
    Memory,
}

const WHY: &str = "libcudnn.so.9 is missing";

/// Placements, threads and accelerators of a load.
type Asked = (Vec<Placement>, usize, Vec<String>);

fn on(device: Device, instances: usize) -> Placement {
    Placement { device, instances: NonZeroUsize::new(instances).unwrap() }
}

/// An engine that notes what it is asked for.
#[derive(Clone)]
struct Fake {
    broken: Broken,
    loads: Arc<Mutex<Vec<Asked>>>,
    /// Devices of the instances.
    made: Arc<Mutex<Vec<Device>>>,
    spec: Option<ModelSpec>,
    keeps_state: bool,
    refuses_trials: bool,
    runs: Arc<Mutex<usize>>,
    /// Do runs go on until they are stopped?
    hangs: bool,
    /// Do runs find fault with their data?
    refuses_data: bool,
}

fn noted<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap()
}

impl Fake {
    fn new(broken: Broken) -> Fake {
        Fake {
            broken,
            loads: Arc::default(),
            made: Arc::default(),
            spec: None,
            keeps_state: false,
            refuses_trials: false,
            runs: Arc::default(),
            hangs: false,
            refuses_data: false,
        }
    }

    fn refuses(&self, stage: Broken, device: Device) -> Result<(), BackendError> {
        match self.broken == stage && device != Device::Cpu {
            true => Err(BackendError::Device(WHY.to_owned())),
            false => Ok(()),
        }
    }
}

impl Backend for Fake {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, BackendError> {
        let accelerators = source.accelerators.iter().map(|it| it.name.clone()).collect();
        let placements = source.placements.clone();
        noted(&self.loads).push((placements, source.default_threads.get(), accelerators));
        source.placements.iter().try_for_each(|it| self.refuses(Broken::Load, it.device))?;
        Ok(Arc::new(self.clone()))
    }
}

impl Model for Fake {
    fn spec(&self) -> Option<&ModelSpec> {
        self.spec.as_ref()
    }

    fn keeps_state(&self) -> bool {
        self.keeps_state
    }

    fn allows_trial_runs(&self) -> bool {
        !self.keeps_state && !self.refuses_trials
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        self.refuses(Broken::Instances, device)?;
        if self.refuses(Broken::Memory, device).is_err() {
            return Err(BackendError::OutOfMemory("CUDA failure 2: out of memory".to_owned()));
        }
        noted(&self.made).push(device);
        Ok(Box::new(FakeInstance { fake: self.clone(), device }))
    }
}

struct FakeInstance {
    fake: Fake,
    device: Device,
}

impl Instance for FakeInstance {
    fn execute(&mut self, batch: &Batch<'_>) -> Result<Vec<NamedTensor>, BackendError> {
        self.fake.refuses(Broken::Runs, self.device)?;
        *noted(&self.fake.runs) += 1;
        if self.fake.refuses_data {
            return Err(BackendError::InvalidInput("x is zero".to_owned()));
        }
        while self.fake.hangs && !batch.stop.is_stopped() {
            std::thread::yield_now();
        }
        Ok(batch.inputs.to_vec())
    }
}

/// A model of this configuration, loaded by a fake engine on a machine of 4 processors.
struct Loading {
    fake: Fake,
    manager: Arc<ModelManager>,
    metrics: Metrics,
}

impl Loading {
    fn new(name: &str, config: &str, gpus: u32, broken: Broken) -> Loading {
        Loading::of(Fake::new(broken), name, config, gpus)
    }

    fn of(fake: Fake, name: &str, config: &str, gpus: u32) -> Loading {
        let dir = std::env::temp_dir().join(format!("muster-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("1")).unwrap();
        let file = dir.join("config.pbtxt");
        let ports = "input { name: 'x' data_type: TYPE_FP32 dims: 1 }
                     output { name: 'x' data_type: TYPE_FP32 dims: 1 }";
        fs::write(&file, format!("backend: 'identity' {ports} {config}")).unwrap();
        let found = FoundModel {
            renamed: false,
            label: None,
            is_of_request: false,
            others: Arc::default(),
            script: None,
            contents: Default::default(),
            name: "m".into(),
            namespace: Arc::default(),
            config: Some(file),
            dir: dir.clone(),
            versions: [(1, dir.join("1"))].into(),
        };
        let (manager, metrics) =
            (Arc::new(ModelManager::default()), Metrics::new(Default::default()));
        let engines: Vec<Arc<dyn Backend>> = vec![Arc::new(fake.clone())];
        let mut settings = settings(gpus);
        if fake.hangs {
            // As long again the watch waits for the runs to end, on a busy machine too.
            settings.repository.load_run_limit = Some(Duration::from_millis(500));
        }
        let loader = Arc::new(Loader::new(engines, settings, Arc::default(), metrics.clone()));
        let loaded = loader
            .read_config(&found)
            .and_then(|raw| loader.load_version(&found, raw.as_ref(), 1, &dir.join("1")));
        match loaded {
            Ok(model) => drop(manager.switch(&found.id(), [(1, Arc::new(model))].into())),
            Err(error) => {
                manager.note(&found.id(), Some(1), State::Unavailable, &*error.to_string())
            }
        }
        fs::remove_dir_all(&dir).unwrap();
        Loading { fake, manager, metrics }
    }

    /// Instances that were made, as numbers of their GPUs, -1 for the CPU.
    fn made(&self) -> Vec<i64> {
        let number = |it: &Device| match it {
            Device::Cpu => -1,
            Device::Gpu(number) => i64::from(*number),
        };
        noted(&self.fake.made).iter().map(number).collect()
    }

    /// The instance groups that clients are shown.
    fn shown(&self) -> String {
        let model = self.manager.get("m", None).unwrap();
        let json = String::from_utf8(model.config_json.to_vec()).unwrap();
        let begin = json.find("\"instance_group\"").unwrap();
        json[begin..].split(']').take(2).collect::<Vec<_>>().join("]")
    }

    fn problem(&self) -> String {
        self.manager.index().into_iter().map(|it| it.reason.to_string()).collect()
    }
}

fn settings(gpus: u32) -> LoadSettings {
    let found = (0..gpus).map(|number| Gpu {
        number,
        uuid: format!("GPU-{number}"),
        name: "T4".to_owned(),
        memory: None,
        capability: None,
    });
    LoadSettings {
        defaults: ModelDefaults::default(),
        repository: Repository {
            config_name: None,
            model_name: None,
            from: crate::settings::repository::ModelsFrom::Repositories(Vec::new()),
            auto_complete: true,
            load_threads: NonZeroUsize::MIN,
            gpu_limits: Vec::new(),
            backend_settings: Vec::new(),
            platform: Default::default(),
            refuse_code: false,
            trusts_load_requests: false,
            runs_pickles: false,
            load_limit: None,
            averages_folds: true,
            load_run_limit: None,
            pipelines: Default::default(),
        },
        cpus: NonZeroUsize::new(4).unwrap(),
        gpus: Gpus { found: found.collect(), reason: "no driver".to_owned(), lack: Lack::NoDriver },
        scheduling: SchedulingSettings {
            longest_stay: LongestStay::Unbounded,
            caller_runs_below: Duration::ZERO,
            ..SchedulingSettings::default()
        },
        watchdog: Arc::default(),
        busy: Busy::default(),
        has_cache: false,
        has_many_models: false,
        rate_limiter: None,
    }
}

#[test]
fn instances_are_made_on_the_gpus_that_there_are_and_clients_see_where() {
    let accelerated = "optimization { execution_accelerators {
                           gpu_execution_accelerator { name: 'tensorrt' } } }
                       instance_group { count: 2 }";
    let loading = Loading::new("on-gpus", accelerated, 2, Broken::Nothing);
    assert_eq!(loading.problem(), "");
    assert_eq!(loading.made(), [0, 1, 0, 1]);
    let placements = vec![on(Device::Gpu(0), 2), on(Device::Gpu(1), 2)];
    assert_eq!(*noted(&loading.fake.loads), [(placements, 1, vec!["tensorrt".to_owned()])]);
    let shown = loading.shown();
    for part in ["\"kind\":\"KIND_GPU\"", "\"count\":2", "\"gpus\":[0,1]"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn of_instances_on_gpus_and_the_cpu_those_on_gpus_are_taken_first() {
    let groups = "instance_group [ { kind: KIND_CPU count: 1 }, { kind: KIND_GPU } ]";
    let loading = Loading::new("order", groups, 1, Broken::Nothing);
    assert_eq!(loading.made(), [0, -1]);
    let (served, settings) = (loading.manager.get("m", None).unwrap(), settings(1));
    let raw = ConfigReader::default().parse_text("config.pbtxt", groups).unwrap();
    let places = Places { cpus: settings.cpus, gpus: Ok(&settings.gpus.found), thread_keys: &[] };
    let plan = plan(&raw.instance_group, &BTreeMap::new(), &settings.defaults, places).unwrap();
    let fake = Fake { broken: Broken::Runs, ..loading.fake.clone() };
    let model: Arc<dyn Model> = Arc::new(fake);
    let extra = &ExtraInputs::Plain;
    let watch = &LoadWatch::default();
    let limit = load_limit::of_engine(None, false, 0);
    let (dir, stop) = (Path::new(""), &Arc::default());
    let warm_up = instances::WarmUp { dir, extra, run_limit: None, limit, watch, stop };
    let (config, signature) = (&served.config, &served.signature);
    let (mut slots, _) = instances::make(&model, config, signature, &plan, warm_up, None).unwrap();
    // The scheduler takes from the end; the instance on the GPU cannot run.
    let runs = |slot: Option<&mut Slot>| {
        let (inputs, outputs, stop) = (&[], &["x".into()], &Stop::new());
        let batch = Batch { signature: 0, inputs, outputs, rows: 1, stop };
        slot.unwrap().fill().unwrap().execute(&batch).is_ok()
    };
    assert!(!runs(slots.last_mut()) && runs(slots.first_mut()));
}

#[test]
fn only_a_model_that_has_answered_zeros_is_one_to_try() {
    let tensor = || TensorSpec {
        name: "x".into(),
        dtype: DataType::Fp32,
        dims: vec![Some(1)],
        any_rank: false,
        optional: false,
    };
    let answers = |name, refuses_data| {
        let spec = Some(ModelSpec {
            inputs: vec![tensor()],
            outputs: vec![tensor()],
            ..ModelSpec::default()
        });
        let fake = Fake { spec, refuses_data, ..Fake::new(Broken::Nothing) };
        Loading::of(fake, name, "", 0).manager.get("m", None).unwrap().answers_zeros
    };
    assert!(answers("answers", false));
    assert!(!answers("refuses", true));
}

#[test]
fn a_model_on_one_gpu_has_its_metrics_labelled_with_that_gpu_and_one_on_two_has_not() {
    let label = |loading: &Loading| {
        let text = String::from_utf8(loading.metrics.render().to_vec()).unwrap();
        let line = text.lines().find(|it| it.starts_with("nv_inference_count{")).unwrap();
        line.to_owned()
    };
    let config = "instance_group { kind: KIND_GPU gpus: 1 }";
    let one = Loading::new("labelled", config, 2, Broken::Nothing);
    assert_eq!(label(&one), "nv_inference_count{gpu_uuid=\"GPU-1\",model=\"m\",version=\"1\"} 0");
    let two = Loading::new("unlabelled", "", 2, Broken::Nothing);
    assert_eq!(label(&two), "nv_inference_count{model=\"m\",version=\"1\"} 0");
}

#[test]
fn where_gpus_cannot_be_used_a_model_that_leaves_it_open_runs_on_the_cpu() {
    for (name, broken) in [
        ("fallback-load", Broken::Load),
        ("fallback-instances", Broken::Instances),
        ("fallback-runs", Broken::Runs),
        ("fallback-memory", Broken::Memory),
    ] {
        let warmed = "model_warmup { name: 'w' batch_size: 1 inputs { key: 'x' value {
                          data_type: TYPE_FP32 dims: 1 zero_data: true } } }";
        let config = if broken == Broken::Runs { warmed } else { "" };
        let loading = Loading::new(name, config, 1, broken);
        assert_eq!(loading.problem(), "", "{broken:?}");
        // As without GPUs: two places, of which one is filled.
        assert_eq!(loading.made().last(), Some(&-1), "{broken:?}");
        let loads = noted(&loading.fake.loads);
        assert_eq!(loads.last(), Some(&(vec![on(Device::Cpu, 2)], 2, vec![])), "{broken:?}");
        assert_eq!(loads.len(), 2, "{broken:?}");
        assert!(loading.shown().contains("KIND_CPU"), "{}", loading.shown());
    }
}

#[test]
fn a_model_that_wants_gpus_is_not_loaded_without_and_the_error_has_the_engines_reason() {
    let config = "instance_group { kind: KIND_GPU }";
    let loading = Loading::new("no-fallback", config, 1, Broken::Load);
    let told = format!(
        "configuration of model 'm': instance_group[0]: KIND_GPU: this machine has no GPU that can be \
         used: {WHY}"
    );
    assert_eq!(loading.problem(), told);
    assert_eq!(noted(&loading.fake.loads).len(), 1);
    let loading = Loading::new("full", config, 1, Broken::Memory);
    assert!(loading.problem().ends_with(": on GPU 0: CUDA failure 2: out of memory"));
    let loading = Loading::new("no-gpu", config, 0, Broken::Nothing);
    assert!(loading.problem().ends_with("no GPU that can be used: no driver"));
    assert!(noted(&loading.fake.loads).is_empty());
}

#[test]
fn a_model_without_trial_runs_is_warmed_with_configured_samples_alone() {
    let sample = "model_warmup { name: 'w' batch_size: 1 count: 2 inputs { key: 'x' value {
                      data_type: TYPE_FP32 dims: 1 zero_data: true } } }";
    let runs = |name: &str, keeps_state, refuses_trials, config: &str| {
        let x = TensorSpec {
            name: "x".into(),
            dtype: DataType::Fp32,
            dims: vec![Some(1)],
            any_rank: false,
            optional: false,
        };
        let spec =
            Some(ModelSpec { inputs: vec![x.clone()], outputs: vec![x], ..ModelSpec::default() });
        let fake = Fake { spec, keeps_state, refuses_trials, ..Fake::new(Broken::Nothing) };
        let loading = Loading::of(fake, name, config, 0);
        assert_eq!(loading.problem(), "");
        *noted(&loading.fake.runs)
    };
    assert!(runs("no-state", false, false, "") > 0);
    assert_eq!(runs("state", true, false, ""), 0);
    assert_eq!(runs("state-sample", true, false, sample), 2);
    assert_eq!(runs("no-trials", false, true, ""), 0);
}

#[test]
fn a_model_whose_first_runs_do_not_end_is_stopped_and_not_served() {
    let x = |dims| TensorSpec {
        name: "x".into(),
        dtype: DataType::Fp32,
        dims,
        optional: false,
        any_rank: false,
    };
    for (name, dims, config) in [
        // Its rows are tried.
        ("endless-rows", vec![None, Some(1)], "max_batch_size: 4"),
        // A made-up request warms it up.
        ("endless-warm-up", vec![Some(1)], ""),
        (
            "endless-sample",
            vec![Some(1)],
            "model_warmup { name: 'w' batch_size: 1 count: 2 inputs { key: 'x' value {
                 data_type: TYPE_FP32 dims: 1 zero_data: true } } }",
        ),
    ] {
        let spec = Some(ModelSpec {
            inputs: vec![x(dims.clone())],
            outputs: vec![x(dims)],
            ..ModelSpec::default()
        });
        let fake = Fake { spec, hangs: true, ..Fake::new(Broken::Nothing) };
        let loading = Loading::of(fake, name, config, 0);
        let told = "its runs before it serves took longer than 0.5 s and were stopped (--load-run-limit-secs)";
        assert!(loading.problem().ends_with(told), "{name}: {}", loading.problem());
        assert_eq!(*noted(&loading.fake.runs), 1, "{name}");
    }
}
