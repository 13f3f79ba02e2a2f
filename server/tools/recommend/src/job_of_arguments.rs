//! What the arguments of a command line mean: a job, and what it is done with.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use loadgen::{Percentile, PhasesArg, StairsArg, Target, Threshold};
use serde_json::Value;

use crate::{
    ArgumentError, Conditions, Configuration, Job, Kind,
    api::ControlSettings,
    arguments::{Args, FlatArg, JobTypeArg, ObjectiveArg, PercentileArg},
    asked::{input_config, stopping_conditions},
    basis::Basis,
    job::check_duration,
    journal::{Journal, JournalPaths, Trouble},
    means::Means,
    payload,
    prices::Prices,
    ranking::Objective,
    setting::{FORM, Variables},
    shares::Places,
    variants,
    watch::Watch,
};

impl Args {
    pub(crate) fn job(&self) -> Result<Job, ArgumentError> {
        if let Some(file) = &self.input_json {
            let text = fs::read_to_string(file).map_err(|it| ArgumentError::file(file, it))?;
            let body: Value =
                serde_json::from_str(&text).map_err(|it| ArgumentError::file(file, it))?;
            let mut job = Job::parse(&body).map_err(|it| ArgumentError::file(file, it))?;
            job.payload = self.payload.clone().or(job.payload);
            if let (Some(option), Some(payload)) = (self.made_up.said(), &job.payload) {
                return Err(ArgumentError::new(format!(
                    "{option}: expected a job without a payload, of which tensors are made up, given {payload} \
                     (SamplePayloadUrl in {}, or --payload): leave {option} out or take the payload away",
                    file.display()
                )));
            }
            (job.variants, job.tolerance) = (self.variants(job.model.as_deref()), self.tolerance);
            job.repeats = self.repeats(&job)?;
            if job.configurations.is_empty() && job.endpoint.is_none() {
                job.configurations = self.machines()?;
            } else if !self.instance.is_empty() {
                return Err(ArgumentError::new(format!(
                    "--instance: expected none with --input-json {}, which says what is measured",
                    file.display()
                )));
            }
            return Ok(job);
        }
        let is_advanced = !self.env.is_empty() || self.phases.is_some() || self.stairs.is_some();
        let kind = match self.job_type {
            Some(JobTypeArg::Default) => Kind::Default,
            Some(JobTypeArg::Advanced) => Kind::Advanced,
            None if is_advanced => Kind::Advanced,
            None => Kind::Default,
        };
        let phases = self.phases.as_ref().map(PhasesArg::traffic);
        let traffic = phases.or(self.stairs.as_ref().map(StairsArg::traffic));
        traffic.as_ref().map_or(Ok(()), |it| it.validate())?;
        let percentile = match self.percentile {
            PercentileArg::P95 => Percentile::P95,
            PercentileArg::P99 => Percentile::P99,
        };
        let duration = self.duration.map(Duration::from_secs);
        let checked = check_duration(duration);
        checked.map_err(|it| ArgumentError::new(format!("--duration: {}", it.problem)))?;
        let latency = self.latency_ms.map(Duration::from_millis);
        let model = self.model.as_ref().or(self.model_option.as_ref());
        let mut job = Job {
            name: "recommend".to_owned(),
            kind,
            model: model.cloned(),
            endpoint: self.endpoint.clone(),
            payload: self.payload.clone(),
            content_types: self.content_type.clone(),
            traffic,
            duration,
            most_tests: self.max_tests.max(1),
            most_parallel: self.parallel.max(1),
            repeats: 1,
            configurations: match self.endpoint {
                Some(_) => Vec::new(),
                None => self.machines()?,
            },
            variants: self.variants(model.map(String::as_str)),
            tolerance: self.tolerance,
            stop: Conditions {
                max_invocations: self.max_invocations,
                threshold: latency.map(|latency| Threshold { percentile, latency }),
                continue_flat: self.flat == FlatArg::Continue,
            },
            input: Value::Null,
            stopping: None,
            warnings: Vec::new(),
        };
        job.repeats = self.repeats(&job)?;
        (job.input, job.stopping) = (input_config(&job), stopping_conditions(&job));
        Ok(job)
    }

    /// How often each setting of the job is tested.
    fn repeats(&self, job: &Job) -> Result<u32, ArgumentError> {
        match (self.repeats, job.kind, &job.endpoint) {
            (1, ..) | (_, Kind::Advanced, None) => Ok(self.repeats),
            (given, _, Some(_)) => Err(ArgumentError::new(format!(
                "--repeats: expected 1 with a server that runs already, given {given}"
            ))),
            (given, Kind::Default, _) => Err(ArgumentError::new(format!(
                "--repeats: expected an advanced job (--env, --phases or --stairs), as a default job has rounds of its \
                 own, given {given}"
            ))),
        }
    }

    /// The forms of `--variant`, and those beside the model's file.
    fn variants(&self, model: Option<&str>) -> Variables {
        let form = |it: &String| (FORM.to_owned(), it.clone());
        let mut forms: Variables = self.variant.iter().map(form).collect();
        let found = model.map(|it| variants::beside(Path::new(it))).unwrap_or_default();
        forms.extend(found.into_iter().filter(|it| !self.variant.contains(&it.1)));
        forms
    }

    /// The machines of `--instance`, else this one.
    fn machines(&self) -> Result<Vec<Configuration>, ArgumentError> {
        let machine = |instance_type: String| Configuration {
            instance_type,
            serverless: None,
            ranges: self.env.clone(),
        };
        let here = format!("local.cpu{}", self.places(None)?.servers.len());
        let instances = if self.instance.is_empty() { vec![here] } else { self.instance.clone() };
        Ok(instances.into_iter().map(machine).collect())
    }

    /// The processors of servers and load generators; of a server that runs already these alone.
    fn places(&self, endpoint: Option<&str>) -> Result<Places, ArgumentError> {
        let [servers, generators] = [&self.server_cpus, &self.client_cpus].map(Option::as_deref);
        let all = launch::cpus();
        match (endpoint, servers, generators) {
            (Some(_), None, Some(generators)) => Places::of_generators(&all, generators),
            _ => Places::of(all, servers, generators),
        }
    }

    /// Are the machines of `--instance` known?
    fn check_instances(&self, prices: &Prices, places: &Places) -> Result<(), ArgumentError> {
        let known = |name: &String| prices.machine(name, places.servers.len()).map(|_| ());
        let checked = self.instance.iter().try_for_each(known);
        checked.map_err(|it| ArgumentError::new(format!("--instance: {it}")))
    }

    /// What an earlier start has kept of the job; nothing where there is no place for it.
    pub(crate) fn journal(
        &self,
        job: &Job,
        means: &Means,
        state: Option<PathBuf>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Journal, Trouble> {
        let root = self.state.clone().or(state);
        match root.filter(|_| job.endpoint.is_none()) {
            None => Ok(Journal::default()),
            Some(root) => {
                let basis = Basis::of(job, means);
                let place = JournalPaths::below(&root, &basis);
                Journal::open(&place, &basis, means.bodies.len(), self.fresh, &means.stop, say)
            }
        }
    }

    /// What the job is done with. Where it has no payload, the bodies are still to be [made](crate::made_bodies).
    pub(crate) fn means(
        &self,
        job: &Job,
        program: &Path,
        stop: Arc<AtomicBool>,
    ) -> Result<Means, ArgumentError> {
        self.check_time_scale()?;
        let server = job.endpoint.as_deref().map(|it| Target::trusted(it, &self.trust)).transpose();
        let server = server?;
        Target::check_trust(&server, &self.trust)?;
        let prices = self.prices()?;
        let names = job.machines();
        let places = self.places(job.endpoint.as_deref())?;
        self.check_instances(&prices, &places)?;
        let priced = prices.for_all(&names, places.servers.len());
        priced.map_err(|it| ArgumentError::new(format!("--prices: {it}")))?;
        let bodies = match (&job.payload, &job.endpoint) {
            (Some(payload), _) => payload::read(payload, &job.content_types)?,
            (None, Some(endpoint)) if !self.made_up.says_inputs() => {
                return Err(ArgumentError::new(format!(
                    "--payload or --input: expected what is sent to {endpoint}, given neither"
                )));
            }
            (None, _) => Vec::new(),
        };
        Ok(Means {
            program: program.to_owned(),
            prices,
            places,
            bodies,
            time_scale: self.time_scale,
            stop,
            environment: Vec::new(),
            trust: self.trust.clone(),
            has_lists: self.table.is_some() || self.html.is_some(),
            watch: Watch::default().telling(|line| {
                // Whoever took standard error away does not want the line.
                let _ = writeln!(io::stderr(), "{line}");
            }),
            objective: self.objective(),
        })
    }

    fn prices(&self) -> Result<Prices, ArgumentError> {
        let Some(file) = &self.prices else { return Ok(Prices::default()) };
        let text = fs::read_to_string(file).map_err(|it| ArgumentError::file(file, it))?;
        Prices::parse(&text).map_err(|it| ArgumentError::file(file, it))
    }

    fn objective(&self) -> Objective {
        match self.objective {
            ObjectiveArg::Cost => Objective::Cost,
            ObjectiveArg::Latency => Objective::Latency,
            ObjectiveArg::Throughput => Objective::Throughput,
        }
    }

    fn check_time_scale(&self) -> Result<(), ArgumentError> {
        match (0.01..=1000.0).contains(&self.time_scale) {
            true => Ok(()),
            false => Err(ArgumentError::new(format!(
                "--time-scale: expected 0.01 to 1000, given {}",
                self.time_scale
            ))),
        }
    }

    /// What `--serve` does jobs with.
    pub(crate) fn control(&self, program: &Path) -> Result<ControlSettings, ArgumentError> {
        self.check_time_scale()?;
        let (prices, places) = (self.prices()?, self.places(None)?);
        self.check_instances(&prices, &places)?;
        Ok(ControlSettings {
            program: program.to_owned(),
            jobs: self.jobs.clone(),
            prices,
            objective: self.objective(),
            time_scale: self.time_scale,
            machines: self.machines()?,
            places,
        })
    }
}

#[cfg(test)]
mod tests;
