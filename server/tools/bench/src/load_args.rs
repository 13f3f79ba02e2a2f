//! How much load there is, as the command line says.

use std::{fmt, str::FromStr, time::Duration};

use clap::ValueEnum;

use crate::{
    Arrivals, Error, Load, Percentile, Phase, Plan, Stairs, Threshold, Traffic,
    option_values::{OptionError, duration, latency},
};

/// The arguments that say how much load there is.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LoadArgs {
    /// Connections, each with at most one request on its way
    #[arg(long, short, default_value_t = 1)]
    connections: usize,
    /// Requests per second, sent whether or not earlier ones are answered; without it each connection
    /// sends when it has its answer
    #[arg(long)]
    rate: Option<f64>,
    /// How requests are spread in time with --rate
    #[arg(long, value_enum, default_value_t = ArrivalsArg::Poisson, requires = "rate")]
    arrivals: ArrivalsArg,
    /// Users, each of whom sends the next request when the answer has come; they come one by one within --ramp and stay
    /// for --duration
    #[arg(long, value_name = "N", conflicts_with_all = ["connections", "rate"])]
    users: Option<usize>,
    /// Seconds within which the --users come
    #[arg(long, value_name = "SECONDS", value_parser = duration, requires = "users")]
    ramp: Option<Duration>,
    /// Phases, each USERS:RATE:SECONDS: users at its beginning, users added per minute, and its length; such as
    /// 2:2:120,6:6:120
    #[arg(long, value_name = "PHASES", conflicts_with_all = ["connections", "rate", "users", "duration"])]
    phases: Option<PhasesArg>,
    /// Stairs, USERS:STEPS:SECONDS: users that each step adds, number of steps, and length of each; such as 2:5:60
    #[arg(long, value_name = "STAIRS", conflicts_with_all = ["connections", "rate", "users", "duration", "phases"])]
    stairs: Option<StairsArg>,
    /// Divides the times of --phases and --stairs; the numbers of users stay
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    time_scale: Option<f64>,
    /// Find the fewest users with 97 % of the highest throughput that is answered in time. Users are doubled until
    /// answers come later than --p95 or --p99, more than 1 % of the requests fail, or two doublings bring no more than
    /// 3 % of throughput. Then the steps between are tried. A step takes --duration
    #[arg(long, conflicts_with_all = ["connections", "rate", "users", "phases", "stairs", "requests", "vs"])]
    pub(crate) find_limit: bool,
    /// With --find-limit: the longest that the 95th percentile of latencies may be, such as 50ms
    #[arg(long, value_name = "LATENCY", value_parser = latency, requires = "find_limit")]
    p95: Option<Duration>,
    /// With --find-limit: the same of the 99th
    #[arg(long, value_name = "LATENCY", value_parser = latency, requires = "find_limit", conflicts_with = "p95")]
    p99: Option<Duration>,
    /// With --find-limit: users that are tried at most
    #[arg(long, value_name = "N", default_value_t = 512, requires = "find_limit")]
    pub(crate) most_users: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalsArg {
    Poisson,
    Constant,
}

/// Phases as words of a command line: `USERS:RATE:SECONDS,..`.
#[derive(Debug, Clone)]
pub struct PhasesArg(Vec<Phase>);

/// Stairs as a word of a command line: `USERS:STEPS:SECONDS`.
#[derive(Debug, Clone, Copy)]
pub struct StairsArg(Stairs);

impl PhasesArg {
    /// The users that they say.
    pub fn traffic(&self) -> Traffic {
        Traffic::Phases(self.0.clone())
    }
}

impl StairsArg {
    /// The users that they say.
    pub fn traffic(&self) -> Traffic {
        Traffic::Stairs(self.0)
    }
}

impl LoadArgs {
    /// Puts the load into a plan. `stay` is how long a number of users stays, where that is not part of the load.
    ///
    /// # Errors
    /// When the arguments do not make a load together.
    pub(crate) fn apply(&self, stay: Option<Duration>, plan: &mut Plan) -> Result<(), Error> {
        plan.connections = self.connections;
        if let Some(rate) = self.rate {
            let arrivals = match self.arrivals {
                ArrivalsArg::Poisson => Arrivals::Poisson,
                ArrivalsArg::Constant => Arrivals::Constant,
            };
            plan.load = Load::Open { rate, arrivals };
        }
        let traffic = match (&self.phases, self.stairs, self.users) {
            (Some(phases), ..) => Some(phases.traffic()),
            (_, Some(stairs), _) => Some(stairs.traffic()),
            (.., Some(users)) => {
                let stay = stay.or(plan.duration).unwrap_or(Duration::from_secs(10));
                Some(Traffic::ramp(users, self.ramp.unwrap_or_default(), stay))
            }
            _ => None,
        };
        match (traffic, self.time_scale) {
            (Some(traffic), factor) => {
                plan.load = Load::Users(traffic.faster(factor.unwrap_or(1.0)));
            }
            (None, Some(_)) => {
                return Err(Error::plan("--time-scale", "expected --phases, --stairs or --users"));
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// By what times are divided.
    pub(crate) fn scale(&self) -> f64 {
        self.time_scale.unwrap_or(1.0)
    }

    /// What a limit is held against.
    pub(crate) fn threshold(&self) -> Option<Threshold> {
        let of = |percentile| move |latency| Threshold { percentile, latency };
        self.p99.map(of(Percentile::P99)).or(self.p95.map(of(Percentile::P95)))
    }
}

/// Three numbers between colons.
fn three(given: &str, expected: &str) -> Result<(usize, f64, Duration), OptionError> {
    let wrong = || OptionError::given(&format!("'{given}'"), expected);
    let mut parts = given.split(':');
    let mut next = || parts.next().ok_or_else(wrong);
    let users = next()?.parse().map_err(|_| wrong())?;
    let number: f64 = next()?.parse().map_err(|_| wrong())?;
    let length = duration(next()?).map_err(|_| wrong())?;
    if parts.next().is_some() || !(0.0..=1e6).contains(&number) {
        return Err(wrong());
    }
    Ok((users, number, length))
}

impl FromStr for PhasesArg {
    type Err = OptionError;

    fn from_str(given: &str) -> Result<PhasesArg, OptionError> {
        let phase = |it: &str| {
            let (initial_users, spawn_rate, duration) =
                three(it, "USERS:RATE:SECONDS, such as 2:2:120")?;
            Ok(Phase { initial_users, spawn_rate, duration })
        };
        given.split(',').map(phase).collect::<Result<_, OptionError>>().map(PhasesArg)
    }
}

impl FromStr for StairsArg {
    type Err = OptionError;

    fn from_str(given: &str) -> Result<StairsArg, OptionError> {
        let (users_per_step, steps, duration) =
            three(given, "USERS:STEPS:SECONDS, such as 2:5:60")?;
        Ok(StairsArg(Stairs { users_per_step, steps: steps as usize, duration }))
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.percentile {
            Percentile::P95 => "p95",
            Percentile::P99 => "p99",
        };
        write!(f, "{name} within {} ms", self.latency.as_secs_f64() * 1e3)
    }
}

fn factor(given: &str) -> Result<f64, OptionError> {
    let given = given.parse().ok().filter(|it: &f64| (0.001..=1e4).contains(it));
    given.ok_or_else(|| OptionError::expected("a factor from 0.001 to 10000, such as 4"))
}
