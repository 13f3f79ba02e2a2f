//! Models without a server around them, for what depends on when they are loaded again.

use std::{fs, num::NonZeroUsize, sync::Arc};

use backend::Backend;
use identity::Identity;
use loading::settings::ModelDefaults;
use loading::{Catalogue, Control, LoadSettings, Loader, Names};
use machine::gpus::{Gpus, Visibility};
use schedule::{SchedulingSettings, admission::LongestStay};
use serving::LoadOverride;
use serving::ModelManager;
use telemetry::metrics::{Metrics, MetricsSettings};

use super::{Repository, Start};

/// Models in this process, loaded again at will.
pub struct Models {
    control: Control,
    /// Where they are.
    pub manager: Arc<ModelManager>,
    repository: Repository,
}

impl Models {
    /// Loads the models of a repository, those of the engine `identity` and ensembles. Answers are kept where there is
    /// a cache to keep them.
    pub fn load(repository: Repository) -> Models {
        let explicit = ["--model-control-mode=explicit", "--load-model=*"];
        let config = Start::new(&repository).flags(&explicit).config().unwrap();
        let catalogue =
            Catalogue::open(&config.repository, false, Names::Once, &config.stores).unwrap();
        let (gpus, _) = Gpus::read(&Visibility { cuda: Some("-1".into()), container: None });
        let settings = LoadSettings {
            defaults: ModelDefaults::default(),
            repository: config.repository,
            cpus: NonZeroUsize::MIN,
            gpus,
            scheduling: SchedulingSettings {
                longest_stay: LongestStay::Unbounded,
                ..SchedulingSettings::default()
            },
            has_many_models: false,
            watchdog: Arc::default(),
            busy: schedule::Busy::default(),
            has_cache: true,
            rate_limiter: None,
        };
        let manager = Arc::new(ModelManager::default());
        let metrics = Metrics::new(MetricsSettings::default());
        let engines: Vec<Arc<dyn Backend>> = vec![Arc::new(Identity)];
        let loader = Arc::new(Loader::new(engines, settings, manager.clone(), metrics));
        let control = Control::new(config.control, loader, manager.clone(), catalogue);
        control.start(false).unwrap();
        manager.finish_start();
        Models { control, manager, repository }
    }

    /// Changes the configuration of a model and loads it alone.
    pub fn reload(&self, name: &str, config: &str) {
        let dir = self.repository.path().join(name);
        fs::create_dir_all(dir.join("1")).unwrap();
        fs::write(dir.join("config.pbtxt"), config).unwrap();
        serving::Control::load(&self.control, name, LoadOverride::default()).unwrap();
    }

    /// The machine has so many processors from now on.
    pub fn follow(&self, cpus: usize) {
        self.control.set_cpus(NonZeroUsize::new(cpus).unwrap());
        self.control.adapt_to_cpus();
    }
}
