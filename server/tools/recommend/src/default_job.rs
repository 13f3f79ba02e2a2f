//! A default job: the search for the best settings of each machine, and its finalists in turns.

use crate::{
    bench::{Bench, STAY, USERS},
    job::Configuration,
    left_out::LeftOut,
    prices::Instance,
    rounds::Turn,
    search::{Knobs, MOST_FINALISTS, SPINNER, Space, finalists},
    setting::{SPINS, Setting},
    step::{Length, Step},
};

/// Turns of each of the finalists; fewer where starting its server takes longer than a turn, or where a turn would see
/// few requests.
const ROUNDS: u32 = 6;
const FEW_ROUNDS: u32 = 3;
/// Requests of a turn that are few, for each number of users.
const FEW_REQUESTS: f64 = 20.0;

impl Bench<'_> {
    /// Looks for the best settings on each of these machines.
    pub(crate) fn search(&mut self, machines: &[(&Configuration, Instance)]) {
        if self.job.most_parallel > 1 && !machines.is_empty() {
            (self.say)(
                "MaxParallelOfTests: tests run one after another, as a default job compares them in turns",
            );
        }
        let mut left = machines;
        while let [(configuration, instance), later @ ..] = left {
            self.plan_probes(left);
            self.search_one(configuration, *instance, later);
            left = later;
        }
    }

    /// The probes of these machines are ahead, and rounds of as many finalists as there may be.
    fn plan_probes(&mut self, machines: &[(&Configuration, Instance)]) {
        let forms = self.job.variants.len();
        let most = |it: &(&Configuration, Instance)| {
            Space { machine: it.1, forms, spins: !it.1.gpu }.most_probes()
        };
        let probes = machines.iter().map(most).sum();
        self.ahead.set(Length::Probe, probes, self.traffic(Length::Probe).duration());
        self.plan_rounds(0, machines);
    }

    /// So many rounds are ahead, and those of later machines.
    fn plan_rounds(&mut self, rounds: usize, later: &[(&Configuration, Instance)]) {
        let rounds = rounds + later.len() * MOST_FINALISTS * self.rounds as usize;
        self.ahead.set(Length::Round, rounds, self.traffic(Length::Round).duration());
    }

    /// Looks for the best settings on a machine. `later` are those that follow.
    fn search_one(
        &mut self,
        configuration: &Configuration,
        instance: Instance,
        later: &[(&Configuration, Instance)],
    ) {
        let name = &configuration.instance_type;
        let setting = |environment| Setting { instance_type: name.clone(), instance, environment };
        let mut left_out = Vec::new();
        let forms = self.job.variants.clone();
        let config_says = self.config_says;
        // The first answers are those of the server's own settings.
        let own = self.step(setting(Vec::new()), Length::Probe);
        let space = Space {
            machine: instance,
            forms: forms.len(),
            spins: !instance.gpu && own.as_ref().is_some_and(|it| self.may_spin(it)),
        };
        let finalists = finalists(
            &space,
            own.as_ref().and_then(rate).unwrap_or_default(),
            |knobs: Knobs| {
                rate(&self.step(setting(knobs.environment(&forms, config_says)), Length::Probe)?)
            },
            |knobs, why| {
                let environment = knobs.environment(&forms, config_says);
                let left = LeftOut::setting(name, &environment, why);
                let in_full = |it: String| format!("{it}, in full");
                left_out.push(LeftOut {
                    what: in_full(left.what),
                    words: in_full(left.words),
                    why: left.why,
                });
            },
        );
        left_out.into_iter().for_each(|it| self.leave_out(it));
        let finalists: Vec<Setting> =
            finalists.iter().map(|it| setting(it.environment(&forms, config_says))).collect();
        self.rounds = self.rounds_of(&finalists);
        self.plan_probes(later);
        self.plan_rounds(finalists.len() * self.rounds as usize, later);
        let turn = |it: Setting| {
            let shares = self.means.places.beside(&[it.instance], 1);
            shares.into_iter().map(|share| (it.clone(), share)).collect()
        };
        let turns: Vec<Turn> = finalists.into_iter().map(turn).collect();
        for rounds in self.in_rounds(&turns, self.rounds) {
            self.conclude(rounds);
        }
    }

    /// Has the engine of this server threads that may be told to spin? Where an operator has told engines something,
    /// that stays.
    fn may_spin(&self, own: &Step) -> bool {
        let told = self.means.environment.iter().any(|it| it.0 == SPINS[0]);
        !told
            && !launch::inherit(SPINS[0])
            && own.served.as_ref().is_some_and(|it| it.engine == SPINNER)
    }

    /// How many turns the finalists get, by what their probes say.
    fn rounds_of(&self, finalists: &[Setting]) -> u32 {
        let stay = STAY.div_f64(f64::from(ROUNDS) * self.means.time_scale);
        let is_quick = |it: &Step| {
            let slowest = it.outcome.as_ref().ok().and_then(|it| it.windows.first());
            let requests = slowest.map_or(0.0, |it| it.throughput * stay.as_secs_f64());
            let setup = it.setup.unwrap_or_default();
            requests >= FEW_REQUESTS && setup <= stay * USERS.len() as u32
        };
        let mut probes = self.steps.iter().filter(|it| finalists.contains(&it.setting));
        if probes.all(is_quick) { ROUNDS } else { FEW_ROUNDS }
    }
}

/// Replies per second of a trial; 0 where they were not within the limits, `None` where it cannot be recommended.
fn rate(step: &Step) -> Option<f64> {
    let rate = step.outcome.as_ref().ok()?.window()?.throughput;
    step.row().map(|it| if it.meets { rate } else { 0.0 })
}
