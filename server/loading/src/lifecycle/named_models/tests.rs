//! What a reload loads, unloads and lets labels stand for, with a real engine on real directories.

use std::{fs, num::NonZeroUsize, path::PathBuf};

use identity::Identity;

use super::*;
use crate::{
    lifecycle::control::Control,
    load::{load_settings::LoadSettings, loader::Loader},
    repository::{catalogue::Catalogue, local::Names},
    settings::{
        control::{ControlMode, ModelControl},
        model_defaults::ModelDefaults,
        repository::{ModelsFrom, Repository},
    },
};
use machine::gpus::{Gpus, Lack};
use schedule::{Busy, SchedulingSettings, admission::LongestStay};
use serving::manager::ModelManager;
use telemetry::metrics::{Metrics, MetricsSettings};

/// Models on disk, and control over them; deleted at the end.
struct Setup {
    root: PathBuf,
    control: Control,
}

const CONFIG: &str = "backend: \"identity\" max_batch_size: 8
    input { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }
    output { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ 4 ] }";

fn repository(from: ModelsFrom) -> Repository {
    Repository {
        from,
        model_name: None,
        config_name: None,
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
    }
}

impl Setup {
    /// Two models `m` and `n` with versions 1, 2 and 3, of which none is configured yet.
    fn new(test: &str, labels: LabelRule) -> Setup {
        let root = std::env::temp_dir().join(format!("muster-named-{test}-{}", std::process::id()));
        for model in ["m", "n"] {
            for version in 1..=3 {
                fs::create_dir_all(root.join(model).join(format!("{version:08}"))).unwrap();
            }
            fs::write(root.join(model).join("config.pbtxt"), CONFIG).unwrap();
        }
        let file = root.join("models.config");
        fs::write(&file, "model_config_list { }").unwrap();
        let from = ModelsFrom::Named(Source::File { path: file, every: None });
        let control = control(repository(from), labels);
        control.start(false).unwrap();
        control.converger.manager.finish_start();
        Setup { root, control }
    }

    /// Reloads with such a list; `/` in front of a path is the root of the test.
    fn reload(&self, configs: &[&str]) -> Result<(), Error> {
        let base = format!("base_path: '{}/", self.root.display());
        let configs = configs.iter().map(|it| format!("config {{ {it} }}"));
        let text = format!("model_config_list {{ {} }}", configs.collect::<String>());
        let text = text.replace("base_path: '/", &base);
        let config = model_server_config("request", &text).unwrap();
        self.control.named_models().reload(&config)
    }

    /// Writes the file, with such a list.
    fn write(&self, config: &str) -> PathBuf {
        let base = format!("base_path: '{}/", self.root.display());
        let text = format!("model_config_list {{ config {{ {config} }} }}");
        let file = self.root.join("models.config");
        fs::write(&file, text.replace("base_path: '/", &base)).unwrap();
        file
    }

    fn ready(&self, name: &str) -> Vec<u64> {
        self.control.converger.manager.ready_versions(name)
    }

    fn labelled(&self, label: &str) -> Option<u64> {
        self.control.converger.manager.labelled("m", label).ok()
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.control.close(Duration::from_secs(10));
        fs::remove_dir_all(&self.root).unwrap();
    }
}

fn control(repository: Repository, labels: LabelRule) -> Control {
    let settings = LoadSettings {
        defaults: ModelDefaults::default(),
        repository: repository.clone(),
        cpus: NonZeroUsize::MIN,
        gpus: Gpus { found: Vec::new(), reason: "no driver".to_owned(), lack: Lack::NoDriver },
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
    };
    let manager = Arc::new(ModelManager::default());
    let metrics = Metrics::new(MetricsSettings::default());
    let loader = Loader::new(vec![Arc::new(Identity)], settings, manager.clone(), metrics);
    let settings = ModelControl {
        mode: ControlMode::None,
        namespacing: false,
        retries: 0,
        on_demand: None,
        multi_model: None,
        hosted: None,
        scratch: std::env::temp_dir(),
        labels,
    };
    let catalogue = Catalogue::open(&repository, false, Names::Once, &Default::default()).unwrap();
    Control::new(settings, Arc::new(loader), manager, catalogue)
}

const M: &str = "name: 'm' base_path: '/m'";

fn versions(policy: &str) -> String {
    format!("{M} model_version_policy {{ {policy} }}")
}

fn labelled(versions: &[u64], label: &str, version: u64) -> String {
    let versions: String = versions.iter().map(|it| format!("versions: {it} ")).collect();
    format!(
        "{M} model_version_policy {{ specific {{ {versions} }} }} \
         version_labels {{ key: '{label}' value: {version} }}"
    )
}

#[test]
fn the_versions_of_the_policy_serve_and_a_reload_replaces_everything() {
    let setup = Setup::new("policies", LabelRule::Available);
    setup.reload(&[M, "name: 'other' base_path: '/n'"]).unwrap();
    assert_eq!((setup.ready("m"), setup.ready("other")), (vec![3], vec![3]));
    setup.reload(&[&versions("latest { num_versions: 2 }")]).unwrap();
    assert_eq!((setup.ready("m"), setup.ready("other")), (vec![2, 3], vec![]));
    setup.reload(&[&versions("all { }")]).unwrap();
    assert_eq!(setup.ready("m"), [1, 2, 3]);
    setup.reload(&[&versions("specific { versions: 1 }")]).unwrap();
    assert_eq!(setup.ready("m"), [1]);
    setup.reload(&[]).unwrap();
    assert_eq!(setup.ready("m"), [] as [u64; 0]);
    assert!(setup.control.converger.manager.get("m", None).is_err());
}

#[test]
fn a_version_that_goes_on_is_not_loaded_again() {
    let setup = Setup::new("kept", LabelRule::Available);
    setup.reload(&[M]).unwrap();
    let before = setup.control.converger.manager.get("m", Some(3)).unwrap();
    setup.reload(&[&versions("all { }")]).unwrap();
    let after = setup.control.converger.manager.get("m", Some(3)).unwrap();
    assert!(before.shares_instances(&after));
}

#[test]
fn labels_move_to_versions_that_the_same_reload_loads() {
    let setup = Setup::new("labels", LabelRule::Available);
    setup.reload(&[&labelled(&[1], "stable", 1)]).unwrap();
    assert_eq!((setup.labelled("stable"), setup.labelled("canary")), (Some(1), None));
    setup.reload(&[&labelled(&[2], "stable", 2)]).unwrap();
    assert_eq!((setup.labelled("stable"), setup.ready("m")), (Some(2), vec![2]));
    setup.reload(&[M]).unwrap();
    assert_eq!(setup.labelled("stable"), None);
}

#[test]
fn a_label_of_a_version_that_is_not_served_changes_nothing() {
    let setup = Setup::new("unserved", LabelRule::Available);
    setup.reload(&[&labelled(&[1], "stable", 1)]).unwrap();
    let error = setup.reload(&[&labelled(&[1, 3], "stable", 2)]).unwrap_err().to_string();
    assert!(error.contains("'stable' stands for version 2"), "{error}");
    assert!(error.contains("available: 1, 3"), "{error}");
    assert_eq!((setup.labelled("stable"), setup.ready("m")), (Some(1), vec![1]));
}

#[test]
fn new_labels_may_stand_for_anything_where_that_was_allowed_and_old_ones_only_where_all_may() {
    let setup = Setup::new("allowed", LabelRule::NewOnesAnywhere);
    setup.reload(&[&labelled(&[1], "stable", 9)]).unwrap();
    assert_eq!(setup.labelled("stable"), Some(9));
    setup.reload(&[&labelled(&[1], "stable", 1)]).unwrap();
    setup.reload(&[&labelled(&[1], "stable", 9)]).unwrap_err();
    assert_eq!(setup.labelled("stable"), Some(1));
    let setup = Setup::new("forced", LabelRule::Anywhere);
    setup.reload(&[&labelled(&[1], "stable", 1)]).unwrap();
    setup.reload(&[&labelled(&[1], "stable", 9)]).unwrap();
    assert_eq!(setup.labelled("stable"), Some(9));
}

#[test]
fn a_label_whose_new_version_fails_to_load_stays_where_it_was() {
    let setup = Setup::new("fails", LabelRule::Available);
    setup.reload(&[&labelled(&[1], "stable", 1)]).unwrap();
    let broken = CONFIG.replace("max_batch_size: 8", "max_batch_size: -1");
    fs::write(setup.root.join("m/config.pbtxt"), broken).unwrap();
    let error = setup.reload(&[&labelled(&[2], "stable", 2)]).unwrap_err().to_string();
    assert!(error.contains("model 'm' version 2: "), "{error}");
    assert_eq!((setup.labelled("stable"), setup.ready("m")), (Some(1), vec![1]));
}

#[test]
fn a_bad_configuration_changes_nothing_and_says_all_that_is_wrong() {
    let setup = Setup::new("bad", LabelRule::Available);
    setup.reload(&[M]).unwrap();
    fs::create_dir(setup.root.join("empty")).unwrap();
    let (gone, empty) = ("name: 'a' base_path: '/gone'", "name: 'b' base_path: '/empty'");
    let error = setup.reload(&[gone, empty]).unwrap_err().to_string();
    assert!(error.contains("model 'a': cannot list base_path"), "{error}");
    assert!(error.contains("model 'b': there is no version in base_path"), "{error}");
    let error = setup.reload(&["base_path: '/n'"]).unwrap_err().to_string();
    assert!(error.contains("model_config_list.config[0].name"), "{error}");
    assert_eq!(setup.ready("m"), [3]);
    let nothing = model_server_config("request", "").unwrap();
    setup.control.named_models().reload(&nothing).unwrap();
    assert_eq!(setup.ready("m"), [3]);
}

#[test]
fn models_of_a_repository_are_not_configured_by_request() {
    let from = ModelsFrom::Repositories(vec![std::env::temp_dir()]);
    let control = control(repository(from), LabelRule::Available);
    let error = control.named_models().configure(vec![]).unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error}");
}

#[test]
fn what_a_file_asked_for_too_early_is_done_once_it_is_there() {
    let setup = Setup::new("early", LabelRule::Available);
    let (file, mut tried) = (setup.write(&labelled(&[1], "stable", 1)), None);
    let mut look = || setup.control.named_models().look_at_file(&file, &mut tried);
    assert_eq!(look(), Ok(()));
    setup.write(&labelled(&[9], "stable", 9));
    let problem = look().unwrap_err();
    assert!(problem.to_string().contains("'stable' stands for version 9"), "{problem}");
    // Nothing has changed, so nothing is tried, and the problem is the same.
    assert_eq!(look(), Err(problem.clone()));
    fs::create_dir(setup.root.join("m/00000009")).unwrap();
    // Somebody may still be writing it.
    assert_eq!(look(), Err(problem));
    assert_eq!(look(), Ok(()));
    assert_eq!((setup.labelled("stable"), setup.ready("m")), (Some(9), vec![9]));
    assert_eq!(look(), Ok(()));
}

#[test]
fn a_file_that_could_not_be_done_leaves_what_was_configured_by_request_since_alone() {
    let setup = Setup::new("since", LabelRule::Available);
    let (file, mut tried) = (setup.write(&labelled(&[9], "stable", 9)), None);
    let mut look = || setup.control.named_models().look_at_file(&file, &mut tried);
    look().unwrap_err();
    setup.reload(&[&labelled(&[2], "stable", 2)]).unwrap();
    fs::create_dir(setup.root.join("m/00000009")).unwrap();
    look().unwrap_err();
    look().unwrap_err();
    assert_eq!((setup.labelled("stable"), setup.ready("m")), (Some(2), vec![2]));
    // What is written anew counts again, also what counted before.
    setup.write(&labelled(&[1], "stable", 1));
    assert_eq!((look(), setup.labelled("stable")), (Ok(()), Some(1)));
}
