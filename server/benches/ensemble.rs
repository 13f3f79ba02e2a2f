//! What do an ensemble and the response cache cost beside the models themselves? One request after the other, in this
//! process, over models that copy nothing and compute nothing, so that what is left is the way from model to model.
//! `cargo bench -p muster --bench ensemble`; docs/background/performance.md explains.

use std::{
    fmt::Write,
    fs,
    num::NonZeroUsize,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use backend::{NamedTensor, Shape, Tensor};
use identity::Identity;
use inference::request::InferenceRequest;
use loading::{
    Catalogue, Control, LoadSettings, Loader, Names,
    settings::{BackendSetting, ControlMode, ModelControl, ModelDefaults, ModelsFrom, Repository},
};
use machine::gpus::{Gpus, Visibility};
use rustix::time::{ClockId, clock_gettime};
use schedule::{Busy, SchedulingSettings, admission::LongestStay};
use serving::{
    ModelManager,
    cache::{Cache, CacheSettings},
    infer::Inference,
};
use stores::StoreSettings;
use telemetry::metrics::{Metrics, MetricsSettings};

/// Requests of one round.
const REQUESTS: u32 = 20_000;

/// Each row is measured so often, in turns with the others; the best counts.
const ROUNDS: usize = 5;

/// Most steps of an ensemble.
const STEPS: usize = 8;

fn main() {
    let models = Models::load();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let metrics = Metrics::new(MetricsSettings::default());
    let cache = Cache::new(&CacheSettings::Local { size: 64 << 20 }, &metrics);
    let (plain, keeping) = (Inference::default(), Inference::new(Some(Arc::new(cache)), None));
    let mut rows =
        vec![("one model", "m0", 16, &plain), ("the same, 64 KiB", "m0", 64 << 10, &plain)];
    let names: Vec<(String, String)> = [1, 2, 4, STEPS]
        .iter()
        .flat_map(|steps| {
            [
                (format!("{steps} steps, one after the other"), format!("chain{steps}")),
                (format!("{steps} steps, side by side"), format!("fork{steps}")),
            ]
        })
        .collect();
    rows.extend(names.iter().map(|(name, model)| (name.as_str(), model.as_str(), 16, &plain)));
    rows.push(("an answer that is kept", "kept", 16, &keeping));
    rows.push(("the same, 64 KiB", "kept", 64 << 10, &keeping));

    let mut best = vec![(Duration::MAX, Duration::MAX); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, model, bytes, inference), best) in rows.iter().zip(&mut best) {
            let (wall, cpu) = runtime.block_on(models.round(inference, model, *bytes));
            *best = (best.0.min(wall), best.1.min(cpu));
        }
    }
    println!("| | us a request | CPU us | beside one model alone | each step |");
    println!("|---|--:|--:|--:|--:|");
    let one = best[0].1.as_secs_f64() * 1e6;
    for ((name, model, ..), (wall, cpu)) in rows.iter().zip(&best) {
        let cpu = cpu.as_secs_f64() * 1e6;
        let steps =
            model.trim_start_matches(|it: char| it.is_ascii_alphabetic()).parse().unwrap_or(0);
        let is_ensemble = model.starts_with("chain") || model.starts_with("fork");
        let each =
            if is_ensemble { format!("{:.2}", cpu / f64::from(steps)) } else { String::new() };
        println!(
            "| {name} | {:.2} | {cpu:.2} | {:.2} | {each} |",
            wall.as_secs_f64() * 1e6,
            cpu / one
        );
    }
}

/// The models to be asked, in a directory that is deleted at the end.
struct Models {
    manager: Arc<ModelManager>,
    dir: PathBuf,
}

impl Models {
    fn load() -> Models {
        let dir = std::env::temp_dir().join(format!("muster-bench-{}", std::process::id()));
        let ports = |what: &str, name: &str| {
            format!("{what} {{ name: \"{name}\" data_type: TYPE_UINT8 dims: [ -1 ] }}\n")
        };
        let member = format!(
            "backend: \"identity\" max_batch_size: 8\n{}{}",
            ports("input", "INPUT0"),
            ports("output", "OUTPUT0")
        );
        let write = |name: &str, config: &str| {
            fs::create_dir_all(dir.join(name).join("1")).expect("a directory");
            fs::write(dir.join(name).join("config.pbtxt"), config).expect("a file");
        };
        (0..STEPS).for_each(|it| write(&format!("m{it}"), &member));
        write("kept", &format!("{member} response_cache {{ enable: true }}"));
        let step = |model: usize, from: &str, to: &str| {
            format!(
                "step {{ model_name: \"m{model}\" model_version: -1 input_map {{ key: \"INPUT0\" value: \"{from}\" }} \
                 output_map {{ key: \"OUTPUT0\" value: \"{to}\" }} }}\n"
            )
        };
        for steps in [1, 2, 4, STEPS] {
            let head =
                format!("platform: \"ensemble\" max_batch_size: 8\n{}", ports("input", "INPUT0"));
            let (mut chain, mut fork) = (String::new(), String::new());
            let mut outputs = String::new();
            for it in 0..steps {
                let from = if it == 0 { "INPUT0".to_owned() } else { format!("t{it}") };
                chain += &step(it, &from, &format!("t{}", it + 1));
                fork += &step(it, "INPUT0", &format!("t{it}"));
                outputs += &ports("output", &format!("t{it}"));
            }
            let last = ports("output", &format!("t{steps}"));
            write(
                &format!("chain{steps}"),
                &format!("{head}{last}ensemble_scheduling {{ {chain} }}"),
            );
            write(
                &format!("fork{steps}"),
                &format!("{head}{outputs}ensemble_scheduling {{ {fork} }}"),
            );
        }
        let (gpus, _) = Gpus::read(&Visibility { cuda: Some("-1".into()), container: None });
        let settings = LoadSettings {
            defaults: ModelDefaults::default(),
            repository: Repository {
                config_name: None,
                from: ModelsFrom::Repositories(vec![dir.clone()]),
                model_name: None,
                auto_complete: true,
                load_threads: NonZeroUsize::MIN,
                gpu_limits: Vec::new(),
                backend_settings: Vec::<BackendSetting>::new(),
                platform: Default::default(),
                refuse_code: false,
                trusts_load_requests: false,
                runs_pickles: false,
                load_limit: None,
                averages_folds: true,
                load_run_limit: None,
                pipelines: Default::default(),
            },
            cpus: NonZeroUsize::MIN,
            gpus,
            scheduling: SchedulingSettings {
                longest_stay: LongestStay::Unbounded,
                ..SchedulingSettings::default()
            },
            watchdog: Arc::default(),
            busy: Busy::default(),
            has_cache: true,
            has_many_models: false,
            rate_limiter: None,
        };
        let catalogue =
            Catalogue::open(&settings.repository, false, Names::Once, &StoreSettings::default());
        let catalogue = catalogue.expect("a directory needs nothing to be opened");
        let manager = Arc::new(ModelManager::default());
        let metrics = Metrics::new(MetricsSettings::default());
        let loader = Loader::new(vec![Arc::new(Identity)], settings, manager.clone(), metrics);
        let control = ModelControl {
            multi_model: None,
            hosted: None,
            mode: ControlMode::None,
            retries: 0,
            namespacing: false,
            on_demand: None,
            scratch: std::env::temp_dir(),
            labels: Default::default(),
        };
        let control = Control::new(control, Arc::new(loader), manager.clone(), catalogue);
        control.start(true).unwrap_or_else(|reason| panic!("{reason}"));
        let mut failed = String::new();
        for it in manager.index().iter().filter(|it| !it.reason.is_empty()) {
            let _ = write!(failed, "{}: {}; ", it.name, it.reason);
        }
        assert!(failed.is_empty(), "{failed}");
        Models { manager, dir }
    }

    /// Time and processor time of one request.
    async fn round(
        &self,
        inference: &Inference,
        model: &str,
        bytes: usize,
    ) -> (Duration, Duration) {
        let model = self.manager.get(model, None).expect("a model that serves");
        let tensor = Tensor::from_vec(Shape::new(&[1, bytes]), vec![7u8; bytes]).expect("a tensor");
        let (started, burnt) = (Instant::now(), processor_time());
        for _ in 0..REQUESTS {
            let input = NamedTensor { name: "INPUT0".into(), tensor: tensor.clone() };
            let request = InferenceRequest { inputs: vec![input], ..InferenceRequest::default() };
            let response = inference.run(&model, request).await;
            std::hint::black_box(response.expect("an answer"));
        }
        (started.elapsed() / REQUESTS, (processor_time() - burnt) / REQUESTS)
    }
}

impl Drop for Models {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
