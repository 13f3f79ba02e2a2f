//! An advanced job: each of the given settings is tested, as many at a time as it allows and there are processors for.

use crate::{
    bench::Bench,
    difference::Difference,
    job::Configuration,
    left_out::LeftOut,
    prices::Instance,
    rounds::Turn,
    setting::{OVER_CONFIG, Setting, Variables, combinations, left_out, rooms},
    step::{Length, middle},
};

/// Combinations that have no room and are said, a line each; and those that files of findings list, of each machine.
const MOST_SAID: usize = 10;
const MOST_LISTED: usize = 10_000;

impl Bench<'_> {
    /// Tests the settings of these machines.
    pub(crate) fn advanced(&mut self, machines: &[(&Configuration, Instance)]) {
        let ranges: Vec<_> = machines.iter().map(|it| it.0.ranges.as_slice()).collect();
        let mut planned = Vec::new();
        for ((configuration, instance), room) in
            machines.iter().zip(rooms(&ranges, self.job.most_tests))
        {
            planned.extend(self.plan(configuration, *instance, room));
        }
        self.all(&planned);
    }

    /// The settings of a machine that an advanced job tests, at most so many.
    fn plan(
        &mut self,
        configuration: &Configuration,
        instance: Instance,
        room: usize,
    ) -> Vec<Setting> {
        let name = &configuration.instance_type;
        let (tried, left) = combinations(&configuration.ranges, room);
        if left > 0 {
            self.list_left(configuration, room, left);
        }
        let config_says = self.config_says;
        let setting = |mut environment: Variables| {
            if config_says && !environment.is_empty() {
                environment.push(OVER_CONFIG.map(str::to_owned).into());
            }
            Setting { instance_type: name.clone(), instance, environment }
        };
        tried.into_iter().map(setting).collect()
    }

    /// Lists the combinations that a machine has no room for: some of them in lines, many for the files of findings.
    fn list_left(&mut self, configuration: &Configuration, room: usize, left: u128) {
        let Configuration { instance_type: name, ranges, .. } = configuration;
        let why = "more than MaxNumberOfTests";
        self.leave_out(LeftOut::several(name, format!("{left} further combinations, {why}")));
        let left_out = left_out(ranges, room).take(MOST_LISTED);
        let listed: Vec<LeftOut> = left_out.map(|it| LeftOut::setting(name, &it, why)).collect();
        let said = listed.iter().take(MOST_SAID);
        said.for_each(|it| (self.say)(&format!("NOT MEASURED {}", it.what)));
        let unsaid = left.saturating_sub(MOST_SAID as u128);
        if unsaid > 0 {
            let place = if self.means.has_lists { ", see --table or --html" } else { "" };
            (self.say)(&format!("NOT MEASURED {name}: and {unsaid} more{place}"));
        }
        let unlisted = left.saturating_sub(listed.len() as u128);
        self.left_out.extend(listed);
        if unlisted > 0 {
            self.left_out.push(LeftOut::several(name, format!("and {unlisted} more, {why}")));
        }
    }

    /// Tests all of these settings, as many at a time as the job allows and there are processors for.
    fn all(&mut self, settings: &[Setting]) {
        let mut turns: Vec<Turn> = Vec::new();
        let mut left = settings;
        while !left.is_empty() {
            let machines: Vec<Instance> = left.iter().map(|it| it.instance).collect();
            let shares = self.means.places.beside(&machines, self.job.most_parallel);
            let (now, later) = left.split_at_checked(shares.len()).unwrap_or((left, &[]));
            turns.push(now.iter().cloned().zip(shares).collect());
            left = later;
        }
        if let Some(line) =
            self.parallel(settings.len(), turns.iter().map(Vec::len).max().unwrap_or_default())
        {
            (self.say)(&line);
        }
        if self.job.repeats > 1 {
            return self.repeat(turns);
        }
        self.ahead.add(Length::Full, turns.len(), self.traffic(Length::Full).duration());
        for turn in turns {
            self.steps(turn, Length::Full);
        }
    }

    /// Tests them as often as the job asks for, in turns, and the first turn twice: what seems to differ between the
    /// first setting and itself is the noise. Those beside it are tested again, too, so that it has the same company.
    fn repeat(&mut self, mut turns: Vec<Turn>) {
        let twin = turns.first().cloned();
        let company = twin.as_ref().map_or(0, |it| it.len().saturating_sub(1));
        turns.splice(0..0, twin);
        let tests = turns.len() * self.job.repeats as usize;
        self.ahead.add(Length::Round, tests, self.traffic(Length::Round).duration());
        let mut measured = self.in_rounds(&turns, self.job.repeats).into_iter();
        let twin = middle(measured.next().unwrap_or_default());
        measured.skip(company).for_each(|it| self.conclude(it));
        let first = self.steps.iter().find(|it| {
            it.is_full() && twin.as_ref().is_some_and(|twin| twin.setting == it.setting)
        });
        self.noise = twin.zip(first).and_then(|(a, b)| Difference::of(&a.rounds, &b.rounds));
    }

    /// What becomes of `MaxParallelOfTests` where so many of the tests at most run at the same time.
    fn parallel(&self, tests: usize, most: usize) -> Option<String> {
        if self.job.most_parallel <= 1 || tests <= 1 {
            return None;
        }
        let here = self.means.places.servers.len() + self.means.places.generators.len();
        Some(match most {
            2.. => format!(
                "MaxParallelOfTests: up to {most} tests run at the same time, each on processors of its own; they \
                 share caches and memory, so that each may carry less than alone"
            ),
            _ => format!(
                "MaxParallelOfTests: tests run one after another: this machine, with {here} processors, has no room \
                 for two servers and a processor for the load of each"
            ),
        })
    }
}
