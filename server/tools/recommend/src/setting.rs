//! What is tried on a machine: variables of the server's environment.

use serde::{Deserialize, Serialize};

use crate::prices::Instance;

/// A machine and the variables of a server on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The machine's name.
    pub instance_type: String,
    /// What it has.
    pub instance: Instance,
    /// Variables, by their names.
    pub environment: Variables,
}

impl Setting {
    /// The variables as words of a command line; what the server finds out by itself is `automatic`.
    pub fn variables(&self) -> String {
        in_words(&self.environment)
    }

    /// What is said of it, without its machine.
    pub(crate) fn described(&self) -> String {
        described(&self.environment)
    }
}

/// What is said of a setting: numbers by their names, `automatic` where nothing was told, and what else was told.
pub(crate) fn described(variables: &Variables) -> String {
    let value = |names: &[&str]| {
        let told = variables.iter().find(|it| names.contains(&&*it.0));
        told.map(|it| it.1.as_str())
    };
    let numbers = NUMBERS.map(|(word, names)| (word, value(names)));
    let mut words: Vec<String> = match numbers.iter().any(|it| it.1.is_some()) {
        true => {
            numbers.map(|(word, value)| format!("{word} {}", value.unwrap_or("automatic"))).into()
        }
        false => vec!["automatic".to_owned()],
    };
    let is_number = |name: &str| NUMBERS.iter().any(|it| it.1.contains(&name));
    for (name, value) in variables.iter().filter(|it| !is_number(&it.0)) {
        match [name.as_str(), value] {
            // That numbers go before the configuration is how they come to hold.
            OVER_CONFIG => continue,
            MERGES => words.push("requests merged".to_owned()),
            SPINS => words.push("threads spin".to_owned()),
            PRECISION => words.push("precision int8".to_owned()),
            [FORM | PIPELINE_GRAPH, path] => {
                let file = path.rsplit('/').next().unwrap_or(path);
                words.push(format!("model {file}"));
            }
            [name, value] => words.push(format!("{name}={value}")),
        }
    }
    words.join(" · ")
}

/// Variables as words of a command line; `automatic` where there are none.
pub(crate) fn in_words(variables: &Variables) -> String {
    let words: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    match words.is_empty() {
        true => "automatic".to_owned(),
        false => words.join(" "),
    }
}

/// Among the variables of a setting, the path of another form of the model. It is no variable of a server, which is
/// given the path in place of the model's.
pub const FORM: &str = "MODEL_PATH";

/// The variable that names the graph of a folder of Hugging Face's, relative to it.
pub const PIPELINE_GRAPH: &str = "MUSTER_PIPELINE_GRAPH";

/// The variable that has products of a folder with weights alone computed in 8 bits, and its value.
pub const PRECISION: [&str; 2] = ["MUSTER_PIPELINE_PRECISION", "int8"];

/// The numbers of a setting: their words, and the names of their variables.
const NUMBERS: [(&str, &[&str]); 3] = [
    ("instances", &[INSTANCES, "SAGEMAKER_MODEL_SERVER_WORKERS"]),
    ("threads", &[THREADS, "OMP_NUM_THREADS"]),
    ("rows", &[ROWS]),
];

/// The variable that has threads of ONNX Runtime that wait for work of a run spin, and its value.
pub const SPINS: [&str; 2] =
    ["MUSTER_BACKEND_CONFIG", "onnxruntime,session.intra_op.allow_spinning=1"];

/// What a server is started with: the path of the model, or of its form that these variables name, and the others.
pub(crate) fn of_form<'a>(model: &'a str, variables: &'a Variables) -> (&'a str, Variables) {
    let form = variables.iter().find(|it| it.0 == FORM);
    let others = variables.iter().filter(|it| it.0 != FORM).cloned();
    (form.map_or(model, |it| &it.1), others.collect())
}

/// How many copies of a model run at a time.
pub const INSTANCES: &str = "MUSTER_DEFAULT_INSTANCE_COUNT";
/// How many threads each of them has.
pub const THREADS: &str = "MUSTER_DEFAULT_INTRA_OP_THREADS";
/// How many rows a run has at most.
pub const ROWS: &str = "MUSTER_DEFAULT_MAX_BATCH_SIZE";

/// The variable by which these go before what the model's configuration says, and its value.
pub const OVER_CONFIG: [&str; 2] = ["MUSTER_DEFAULTS_OVER_CONFIG", "true"];

/// The variable by which requests are merged where the configuration names rows of a run and says nothing of it.
pub const MERGES: [&str; 2] = ["MUSTER_DEFAULT_DYNAMIC_BATCHING", "true"];

/// Variables of a server, by their names.
pub type Variables = Vec<(String, String)>;

/// The variables of both; `upper` holds where they name the same one.
pub fn overlaid(lower: &Variables, upper: &Variables) -> Variables {
    let is_named = |name: &str| upper.iter().any(|it| it.0 == name);
    let kept = lower.iter().filter(|it| !is_named(&it.0));
    kept.chain(upper).cloned().collect()
}

/// How many combinations the values of these variables have.
fn number(ranges: &[(String, Vec<String>)]) -> u128 {
    ranges.iter().fold(1, |number, it| number.saturating_mul(it.1.len() as u128))
}

/// How many combinations each of several machines may try, of so many together: as many as the others, and what one
/// does not need goes to those that have more.
pub fn rooms(machines: &[&[(String, Vec<String>)]], most: usize) -> Vec<usize> {
    let wanted: Vec<u128> = machines.iter().map(|it| number(it)).collect();
    let mut rooms = vec![0_usize; machines.len()];
    let mut left = most;
    while left > 0 {
        let open = rooms.iter_mut().zip(&wanted).filter(|it| (*it.0 as u128) < *it.1);
        let mut open: Vec<_> = open.collect();
        if open.is_empty() {
            break;
        }
        let each = (left / open.len()).max(1);
        for (room, wanted) in &mut open {
            let lacking = usize::try_from(**wanted - **room as u128).unwrap_or(usize::MAX);
            let more = each.min(lacking).min(left);
            **room += more;
            left -= more;
        }
    }
    rooms
}

/// Combinations of the values of these variables: all of them, or with more than `most` an even spread. How many are
/// left out comes second.
pub fn combinations(ranges: &[(String, Vec<String>)], most: usize) -> (Vec<Variables>, u128) {
    let places = places(number(ranges), most);
    let left = number(ranges) - places.len() as u128;
    (places.into_iter().map(|nth| combination(ranges, nth)).collect(), left)
}

/// The combinations that [`combinations`] leaves out, in their order. There may be more than anybody reads.
pub fn left_out(
    ranges: &[(String, Vec<String>)],
    most: usize,
) -> impl Iterator<Item = Variables> + use<'_> {
    let places = places(number(ranges), most);
    let left = (0..number(ranges)).filter(move |it| places.binary_search(it).is_err());
    left.map(|nth| combination(ranges, nth))
}

/// The numbers of at most so many combinations of all of them, ascending.
fn places(number: u128, most: usize) -> Vec<u128> {
    let most = most as u128;
    let chosen = number.min(most);
    let place = |nth: u128| match number <= most {
        true => nth,
        false => number.saturating_sub(1) / chosen.saturating_sub(1).max(1) * nth,
    };
    // The last one is one of the spread.
    let place = |nth: u128| if nth > 0 && nth == chosen - 1 { number - 1 } else { place(nth) };
    (0..chosen).map(place).collect()
}

/// The combination of that number; the values of the last variable change first.
fn combination(ranges: &[(String, Vec<String>)], mut number: u128) -> Variables {
    let mut variables = Variables::new();
    for (name, values) in ranges.iter().rev() {
        let count = (values.len() as u128).max(1);
        let value = values.get((number % count) as usize);
        variables.extend(value.map(|value| (name.clone(), value.clone())));
        number /= count;
    }
    variables.reverse();
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(name: &str, values: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), values.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn all_combinations_are_tried_or_an_even_spread() {
        let ranges = [range("A", &["1", "2", "3"]), range("B", &["x", "y"])];
        let (all, left) = combinations(&ranges, 6);
        assert_eq!((all.len(), left), (6, 0));
        assert_eq!(all[1], [("A".into(), "1".into()), ("B".into(), "y".into())]);
        let (some, left) = combinations(&ranges, 3);
        assert_eq!((some.len(), left), (3, 3));
        assert_eq!((&some[0], &some[2]), (&all[0], &all[5]));
        let missing: Vec<Variables> = left_out(&ranges, 3).collect();
        let mut both = [some.clone(), missing.clone()].concat();
        both.sort();
        assert_eq!((missing.len(), both), (3, all.clone()));
        assert_eq!((left_out(&ranges, 6).count(), left_out(&ranges, 0).count()), (0, 6));
        assert_eq!(combinations(&ranges, 1).0, [all[0].clone()]);
        assert_eq!(combinations(&[], 4), (vec![Vec::new()], 0));
        // Far more than there is memory for.
        let many: Vec<_> = (0..20).map(|_| range("A", &["1", "2", "3"])).collect();
        let (some, left) = combinations(&many, 4);
        assert_eq!((some.len(), left), (4, 3_u128.pow(20) - 4));
        assert_eq!((&some[0][19].1, &some[3][0].1), (&"1".to_owned(), &"3".to_owned()));
        assert_eq!(left_out(&many, 4).take(9).count(), 9);
    }

    #[test]
    fn a_setting_is_told_in_words() {
        let told = |of: &[(&str, &str)]| {
            described(&of.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect())
        };
        assert_eq!(told(&[]), "automatic");
        let numbers = [(INSTANCES, "1"), ("OMP_NUM_THREADS", "2"), (OVER_CONFIG[0], "true")];
        assert_eq!(told(&numbers), "instances 1 · threads 2 · rows automatic");
        let more = [(ROWS, "8"), (SPINS[0], SPINS[1]), (FORM, "/m/model_int8.onnx"), ("A", "b")];
        let words = "instances automatic · threads automatic · rows 8 · threads spin · model model_int8.onnx · A=b";
        assert_eq!(told(&[(PRECISION[0], PRECISION[1])]), "automatic · precision int8");
        assert_eq!(told(&more), words);
        assert_eq!(told(&[("A", "b")]), "automatic · A=b");
    }

    #[test]
    fn another_form_of_the_model_is_served_in_its_place() {
        let variables = [("OMP_NUM_THREADS", "2"), (FORM, "/m/model_int8.onnx")];
        let variables: Variables =
            variables.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned())).collect();
        assert_eq!(
            of_form("/m/model.onnx", &variables),
            ("/m/model_int8.onnx", variables[..1].to_vec())
        );
        assert_eq!(of_form("/m/model.onnx", &variables[..1].to_vec()).0, "/m/model.onnx");
    }

    #[test]
    fn machines_share_the_tests_and_none_takes_those_of_the_others() {
        let many = [range("A", &["1", "2", "3"]), range("B", &["1", "2", "3", "4"])];
        let few = [range("A", &["1", "2"])];
        let rooms = |machines: &[&[(String, Vec<String>)]], most| super::rooms(machines, most);
        assert_eq!(rooms(&[&many, &many], 10), [5, 5]);
        assert_eq!(rooms(&[&many, &few, &many], 10), [4, 2, 4]);
        assert_eq!(rooms(&[&many, &many, &many], 2), [1, 1, 0]);
        assert_eq!(rooms(&[&few, &[]], 10), [2, 1]);
        assert_eq!(rooms(&[], 10), [0; 0]);
        let endless: Vec<_> = (0..200).map(|_| range("A", &["1", "2", "3"])).collect();
        assert_eq!(rooms(&[&few, &endless], 9), [2, 7]);
    }

    #[test]
    fn a_variable_of_a_setting_goes_before_that_of_all() {
        let of = |it: &[(&str, &str)]| -> Variables {
            it.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let both = overlaid(&of(&[("A", "1"), ("B", "1")]), &of(&[("B", "2"), ("C", "2")]));
        assert_eq!(both, of(&[("A", "1"), ("B", "2"), ("C", "2")]));
    }
}
