//! A loaded model: what it takes and gives, and a module for each device.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use backend::{
    BackendError, Device, FileStamps, GraphRows, Instance, MODEL_STACK, Model, ModelSource,
    ModelSpec,
};

use crate::{
    error::{self, ModuleError},
    inputs::{self, Input},
    instance::{Ports, TorchInstance},
    library::Library,
    native::Module,
    options::ModuleSettings,
    probe::{self, Findings, Sample},
    rewrite,
    runner::{Runner, how},
    shared_rows,
    trial::ModuleTrial,
};

/// One version of a model.
pub(crate) struct TorchModel {
    /// For logs.
    name: String,
    loader: Loader,
    stateful: bool,
    loops: bool,
    spec: ModelSpec,
    ports: Arc<Ports>,
    inputs: Arc<[Input]>,
    arguments: usize,
    sample: Option<Vec<Sample>>,
    /// Guards the modules, one for each device that instances were asked for; all instances on it run it.
    /// Empty for a stateful model, each instance of which has a module of its own.
    modules: Mutex<Vec<(Device, Arc<Module>)>>,
}

/// What it takes to load the file, on this device or that.
struct Loader {
    library: Arc<Library>,
    path: PathBuf,
    /// The file as it was before it was loaded first.
    stamps: FileStamps,
    settings: ModuleSettings,
}

impl TorchModel {
    /// Loads the file and finds out what it takes and gives. Blocking.
    pub(crate) fn load(
        library: Arc<Library>,
        source: &ModelSource,
        path: PathBuf,
    ) -> Result<TorchModel, BackendError> {
        let settings = ModuleSettings::read(&source.options, source.default_threads)?;
        let stamps = FileStamps::of([path.clone()]).of_known(&source.contents);
        let loader = Loader { library, path, stamps, settings };
        on_a_large_stack(|| loader.model(source))
    }
}

/// Runs `work` on a thread of its own, with a stack for compilers that recurse, whatever thread asks for it.
fn on_a_large_stack<T: Send>(
    work: impl FnOnce() -> Result<T, BackendError> + Send,
) -> Result<T, BackendError> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("torch-load".to_owned()).stack_size(MODEL_STACK);
        let thread = builder.spawn_scoped(scope, work);
        let thread =
            thread.map_err(|it| BackendError::Load(format!("no thread to load with: {it}")))?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

impl Loader {
    fn model(self, source: &ModelSource) -> Result<TorchModel, BackendError> {
        let device = source.placements.first().map_or(Device::Cpu, |it| it.device);
        let switches = self.library.switch_for(&source.name, &self.settings, device);
        let module = self.module(device)?;
        let interface = module.interface();
        if interface.training {
            tracing::warn!(
                model = source.name,
                "the module was saved in training mode and runs in it: dropout drops, batch \
                 normalisation depends on the batch; call .eval() before saving"
            );
        }
        let problem = |it: ModuleError| error::of_module(&self.path, &it.to_string());
        let inputs: Arc<[Input]> =
            inputs::assign(&interface, &source.hints.inputs).map_err(problem)?.into();
        let arguments = if interface.takes_dict() { 0 } else { interface.parameters.len() };
        let module = Arc::new(module);
        let runner = Runner::new(module.clone(), inputs.clone(), arguments, how(&self.settings));
        let found = match self.settings.trial_runs {
            true => probe::find(&interface, &inputs, &source.hints, &mut ModuleTrial::new(runner)),
            false => probe::untried(&interface, &inputs, &source.hints),
        };
        let Findings { mut spec, outputs, sample, warning } = found.map_err(problem)?;
        spec.rows = self.rows();
        if let Some(warning) = warning {
            tracing::warn!(model = source.name, "{warning}");
        }
        if interface.stateful || sample.is_none() {
            self.library.without_a_run(&source.name, &self.settings);
        }
        // What the trials left behind in a stateful module, the first request would see.
        let modules = match interface.stateful {
            true => Vec::new(),
            false => {
                vec![(device, self.faster(module, &inputs, arguments, sample.as_deref()))]
            }
        };
        let ports = Arc::new(Ports { inputs: spec.inputs.clone(), outputs });
        drop(switches);
        Ok(TorchModel {
            name: source.name.clone(),
            stateful: interface.stateful,
            loops: interface.loops,
            spec,
            ports,
            inputs,
            arguments,
            sample,
            modules: Mutex::new(modules),
            loader: self,
        })
    }

    /// What the code of the file says of its rows.
    fn rows(&self) -> GraphRows {
        match shared_rows::shared_by(&self.path) {
            Ok(Some(operator)) => GraphRows::Shared(operator),
            Ok(None) => GraphRows::Unknown,
            Err(error) => {
                tracing::debug!(model = %self.path.display(), %error, "its code is not looked at");
                GraphRows::Unknown
            }
        }
    }

    /// The module as it is in the file. A file that has been replaced is another model, even where it looks the same.
    fn module(&self, device: Device) -> Result<Module, BackendError> {
        if let Device::Gpu(number) = device {
            self.library.check_gpu(number)?;
        }
        self.stamps.while_same(|| {
            let module = self.library.plugin.load(&self.path, device);
            module.map_err(|it| error::of_load(&self.path, &it))
        })
    }

    /// The module rewritten as far as the settings allow and its answers stay the same, and warm.
    fn faster(
        &self,
        module: Arc<Module>,
        inputs: &Arc<[Input]>,
        arguments: usize,
        sample: Option<&[Sample]>,
    ) -> Arc<Module> {
        let runner = |module| Runner::new(module, inputs.clone(), arguments, how(&self.settings));
        rewrite::faster(module, self.settings.rewrite, sample, &runner, &self.path)
    }
}

impl Model for TorchModel {
    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn keeps_state(&self) -> bool {
        self.stateful
    }

    fn time_follows_values(&self) -> bool {
        self.loops
    }

    fn instantiate(&self, device: Device) -> Result<Box<dyn Instance>, BackendError> {
        let module = self.module_on(device)?;
        let how = how(&self.loader.settings);
        let runner = Runner::new(module, self.inputs.clone(), self.arguments, how);
        Ok(Box::new(TorchInstance::new(runner, self.ports.clone())))
    }
}

impl TorchModel {
    fn module_on(&self, device: Device) -> Result<Arc<Module>, BackendError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = modules.iter().find(|(it, _)| *it == device) {
            return Ok(module.clone());
        }
        let module = on_a_large_stack(|| self.another(device))?;
        // Two runs of a stateful one at once would change it under each other.
        if !self.stateful {
            modules.push((device, module.clone()));
        }
        Ok(module)
    }

    fn another(&self, device: Device) -> Result<Arc<Module>, BackendError> {
        let loader = &self.loader;
        let _switches = loader.library.switch_for(&self.name, &loader.settings, device);
        let module = Arc::new(loader.module(device)?);
        Ok(match self.stateful {
            true => module,
            false => loader.faster(module, &self.inputs, self.arguments, self.sample.as_deref()),
        })
    }
}
