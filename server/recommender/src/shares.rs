//! Which processors a test has, and which tests run beside each other. Pure.

use crate::prices::Instance;

/// The processors of one test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Share {
    /// Those of its server.
    pub server: Vec<usize>,
    /// Those of its load generator; none where it shares those of the server.
    pub generator: Vec<usize>,
}

/// The shares of the first of these tests that run beside each other: one or more, at most `most`. No two shares have a
/// processor in common, each load generator has at least one for itself, and at most one server has the GPU.
pub fn beside(processors: &[usize], tests: &[Instance], most: usize) -> Vec<Share> {
    let mut together: &[Instance] = tests.get(..1).unwrap_or_default();
    for count in 2..=most.min(tests.len()) {
        let Some(more) = tests.get(..count).filter(|it| fit(processors.len(), it)) else { break };
        together = more;
    }
    let servers: usize = together.iter().map(|it| it.cpus).sum();
    let (mut generators, mut rest) =
        processors.split_at_checked(processors.len().saturating_sub(servers)).unwrap_or_default();
    let mut shares = Vec::with_capacity(together.len());
    for (place, test) in together.iter().enumerate() {
        let left = (together.len() - place).max(1);
        let (generator, others) =
            generators.split_at_checked(generators.len() / left).unwrap_or_default();
        let (server, more) = rest.split_at_checked(test.cpus.min(rest.len())).unwrap_or_default();
        (generators, rest) = (others, more);
        shares.push(Share { server: server.to_vec(), generator: generator.to_vec() });
    }
    shares
}

/// Have these tests room beside each other on so many processors?
fn fit(processors: usize, tests: &[Instance]) -> bool {
    let wanted = tests.iter().fold(0_usize, |sum, it| sum.saturating_add(it.cpus + 1));
    wanted <= processors && tests.iter().filter(|it| it.gpu).count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(processors: usize, tests: &[Instance], most: usize, expect: &[(&[usize], &[usize])]) {
        let all: Vec<usize> = (0..processors).collect();
        let shares = beside(&all, tests, most);
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
}
