//! Which processors a test has, and which tests run beside each other. Pure.

use crate::{ArgumentError, prices::Instance};

/// More than any machine has.
const MOST_PROCESSORS: usize = 1 << 16;

/// The processors of one test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Those of its server.
    pub server: Vec<usize>,
    /// Those of its load generator; none where it shares those of the server.
    pub generator: Vec<usize>,
}

/// The processors of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Places {
    /// Those of servers.
    pub servers: Vec<usize>,
    /// Those of load generators; none where they have what servers leave of theirs.
    pub generators: Vec<usize>,
}

impl Places {
    /// Servers and load generators share these.
    pub fn shared(processors: Vec<usize>) -> Places {
        Places { servers: processors, generators: Vec::new() }
    }

    /// Of all processors those that are named for servers and for load generators; one side has what the other leaves,
    /// where only one is named.
    ///
    /// # Errors
    /// Names the option, what was expected and what was given.
    pub fn of(
        all: Vec<usize>,
        servers: Option<&[usize]>,
        generators: Option<&[usize]>,
    ) -> Result<Places, ArgumentError> {
        check(&all, "--server-cpus", servers.unwrap_or_default())?;
        check(&all, "--client-cpus", generators.unwrap_or_default())?;
        let besides = |list: &[usize]| besides(&all, list);
        match (servers, generators) {
            (None, None) => Ok(Places::shared(all)),
            (Some(servers), None) => {
                Ok(Places { servers: servers.to_vec(), generators: besides(servers) })
            }
            (servers, Some(generators)) => {
                let servers = servers.map_or_else(|| besides(generators), <[usize]>::to_vec);
                if let Some(both) = generators.iter().find(|it| servers.contains(it)) {
                    return Err(ArgumentError::new(format!(
                        "--client-cpus: expected other processors than those of --server-cpus, given {both} in both"
                    )));
                }
                if servers.is_empty() {
                    return Err(ArgumentError::new(
                        "--client-cpus: expected to leave a processor for servers, given all",
                    ));
                }
                Ok(Places { servers, generators: generators.to_vec() })
            }
        }
    }

    /// Of all processors those that are named for load generators, for a server that runs already: none has to be left.
    ///
    /// # Errors
    /// What was expected and what was given.
    pub fn of_generators(all: &[usize], generators: &[usize]) -> Result<Places, ArgumentError> {
        check(all, "--client-cpus", generators)?;
        Ok(Places { servers: besides(all, generators), generators: generators.to_vec() })
    }

    /// The shares of the first of these tests that run beside each other: one or more, at most `most`. No two shares
    /// have a processor in common, each load generator has at least one for itself, and at most one server has the GPU.
    pub fn beside(&self, tests: &[Instance], most: usize) -> Vec<Share> {
        let mut together: &[Instance] = tests.get(..1).unwrap_or_default();
        for count in 2..=most.min(tests.len()) {
            let Some(more) = tests.get(..count).filter(|it| self.fit(it)) else { break };
            together = more;
        }
        let servers: usize = together.iter().map(|it| it.cpus).sum();
        let (mut generators, mut rest) = match self.generators.is_empty() {
            true => {
                let left = self.servers.len().saturating_sub(servers);
                self.servers.split_at_checked(left).unwrap_or_default()
            }
            false => (self.generators.as_slice(), self.servers.as_slice()),
        };
        let mut shares = Vec::with_capacity(together.len());
        for (place, test) in together.iter().enumerate() {
            let left = (together.len() - place).max(1);
            let (generator, others) =
                generators.split_at_checked(generators.len() / left).unwrap_or_default();
            let (server, more) =
                rest.split_at_checked(test.cpus.min(rest.len())).unwrap_or_default();
            (generators, rest) = (others, more);
            shares.push(Share { server: server.to_vec(), generator: generator.to_vec() });
        }
        shares
    }

    /// Have these tests room beside each other?
    fn fit(&self, tests: &[Instance]) -> bool {
        let servers = tests.iter().fold(0_usize, |sum, it| sum.saturating_add(it.cpus));
        let has_room = match self.generators.is_empty() {
            true => servers.saturating_add(tests.len()) <= self.servers.len(),
            false => servers <= self.servers.len() && tests.len() <= self.generators.len(),
        };
        has_room && tests.iter().filter(|it| it.gpu).count() <= 1
    }
}

/// Are the processors of an option among all?
fn check(all: &[usize], option: &str, list: &[usize]) -> Result<(), ArgumentError> {
    let Some(other) = list.iter().find(|it| !all.contains(it)) else { return Ok(()) };
    let all: Vec<String> = all.iter().map(usize::to_string).collect();
    let all = all.join(",");
    Err(ArgumentError::new(format!(
        "{option}: expected processors that this program may use ({all}), given {other}"
    )))
}

/// All processors but these.
fn besides(all: &[usize], list: &[usize]) -> Vec<usize> {
    all.iter().copied().filter(|it| !list.contains(it)).collect()
}

/// Processors as `taskset` takes them: `0-3,6`.
///
/// # Errors
/// What was expected and what was given.
pub fn processors(given: &str) -> Result<Vec<usize>, ArgumentError> {
    let wrong = || ArgumentError::new(format!("expected processors such as 0-3,6, given {given}"));
    let number = |it: &str| {
        let number = it.parse::<usize>().ok().filter(|it| *it < MOST_PROCESSORS);
        number.ok_or_else(wrong)
    };
    let mut processors = Vec::new();
    for part in given.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        processors.extend(first..=last);
    }
    processors.sort_unstable();
    processors.dedup();
    Ok(processors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(processors: usize, tests: &[Instance], most: usize, expect: &[(&[usize], &[usize])]) {
        check_in(&Places::shared((0..processors).collect()), tests, most, expect);
    }

    #[track_caller]
    fn check_in(places: &Places, tests: &[Instance], most: usize, expect: &[(&[usize], &[usize])]) {
        let shares = places.beside(tests, most);
        let shares: Vec<(&[usize], &[usize])> =
            shares.iter().map(|it| (&it.server[..], &it.generator[..])).collect();
        assert_eq!(shares, expect);
    }

    fn cpus(cpus: usize) -> Instance {
        Instance { cpus, gpu: false, price_per_hour: None }
    }

    #[test]
    fn one_test_has_its_processors_and_its_generator_the_others() {
        check(4, &[cpus(1), cpus(1)], 1, &[(&[3], &[0, 1, 2])]);
        check(2, &[cpus(2)], 1, &[(&[0, 1], &[])]);
    }

    #[test]
    fn tests_are_beside_each_other_where_each_has_processors_of_its_own() {
        check(4, &[cpus(1), cpus(1)], 3, &[(&[2], &[0]), (&[3], &[1])]);
        check(8, &[cpus(1), cpus(2), cpus(4)], 2, &[(&[5], &[0, 1]), (&[6, 7], &[2, 3, 4])]);
        // The third would leave no processor for a generator.
        check(6, &[cpus(1), cpus(2), cpus(1)], 3, &[(&[3], &[0]), (&[4, 5], &[1, 2])]);
    }

    #[test]
    fn a_test_is_alone_where_there_is_no_room_or_one_gpu_for_two() {
        check(2, &[cpus(1), cpus(1)], 2, &[(&[1], &[0])]);
        check(3, &[cpus(1), cpus(1)], 2, &[(&[2], &[0, 1])]);
        let gpu = Instance { gpu: true, ..cpus(1) };
        check(8, &[gpu, gpu], 2, &[(&[7], &[0, 1, 2, 3, 4, 5, 6])]);
        check(4, &[gpu, cpus(1)], 2, &[(&[2], &[0]), (&[3], &[1])]);
        check(4, &[cpus(usize::MAX - 1), cpus(usize::MAX - 1)], 2, &[(&[0, 1, 2, 3], &[])]);
        check(4, &[], 2, &[]);
    }

    #[test]
    fn named_processors_are_those_of_servers_and_of_load_generators() {
        let of = |servers: Option<&[usize]>, generators: Option<&[usize]>| {
            Places::of((0..4).collect(), servers, generators)
        };
        let places = of(Some(&[2, 3]), Some(&[0])).unwrap();
        check_in(&places, &[cpus(2)], 1, &[(&[2, 3], &[0])]);
        // One generator has no place for a second one.
        check_in(&places, &[cpus(1), cpus(1)], 2, &[(&[2], &[0])]);
        let places = of(Some(&[0, 1]), None).unwrap();
        check_in(&places, &[cpus(1), cpus(1)], 2, &[(&[0], &[2]), (&[1], &[3])]);
        assert_eq!(of(None, Some(&[0])).unwrap().servers, [1, 2, 3]);
        assert_eq!(of(None, None).unwrap(), Places::shared(vec![0, 1, 2, 3]));
        for (servers, generators, expected) in [
            (
                Some(&[1, 9][..]),
                None,
                "--server-cpus: expected processors that this program may use (0,1,2,3), given 9",
            ),
            (Some(&[1][..]), Some(&[1][..]), "given 1 in both"),
            (None, Some(&[0, 1, 2, 3][..]), "leave a processor for servers"),
        ] {
            let problem = of(servers, generators).unwrap_err().to_string();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn a_list_of_processors_is_that_of_taskset() {
        assert_eq!(processors("0-2,6,1").unwrap(), [0, 1, 2, 6]);
        for wrong in ["", "3-1", "a", "1,,2", "-1", "0-99999999999", "0-100000"] {
            let problem = processors(wrong).unwrap_err().to_string();
            assert!(problem.starts_with("expected processors"), "{wrong}");
        }
    }
}
