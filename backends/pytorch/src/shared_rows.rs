//! Operators by which rows of a run share something, whatever is sent, in the code that a TorchScript archive holds: a
//! scale of quantisation that is computed from all rows, or chance.

use std::{
    io::{self, BufReader},
    path::Path,
};

use crate::archive;

/// More code than that is not looked at.
const MOST_CODE: u64 = 64 << 20;

/// Operators that draw lots, without the `_` of those that write to their input.
const CHANCE: [&str; 21] = [
    "bernoulli",
    "binomial",
    "cauchy",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "random",
    "randperm",
    "rrelu_with_noise",
    "standard_gamma",
    "uniform",
    "_sample_dirichlet",
];

/// Operators that do so, or take the statistics of the whole run, where an argument is `True`; and its place.
const IN_TRAINING: [(&str, usize); 9] = [
    ("dropout", 2),
    ("feature_dropout", 2),
    ("alpha_dropout", 2),
    ("feature_alpha_dropout", 2),
    ("native_dropout", 2),
    ("rrelu", 3),
    ("batch_norm", 5),
    ("native_batch_norm", 5),
    ("cudnn_batch_norm", 5),
];

/// Operators that compute a scale of quantisation from all that they are given.
const COMPUTED_SCALE: [&str; 5] = [
    "quantize_per_tensor_dynamic",
    "choose_qparams_optimized",
    "_choose_qparams_per_tensor",
    "quantized_lstm",
    "quantized_gru",
];

/// Packages of operators; `quantized` has dynamic ones by the ends of their names.
const PACKAGES: [&str; 3] = ["torch.", "ops.aten.", QUANTIZED];
const QUANTIZED: &str = "ops.quantized.";
const DYNAMIC: &str = "_dynamic";

/// The first such operator in the code of that archive.
///
/// # Errors
/// The file cannot be read, or is no archive.
pub(crate) fn shared_by(path: &Path) -> io::Result<Option<String>> {
    let mut file = BufReader::new(backend::open_file(path)?);
    let mut left = MOST_CODE;
    for entry in archive::entries(&mut file)? {
        if !entry.name.contains("/code/") || !entry.name.ends_with(".py") {
            continue;
        }
        let code = archive::contents(&mut file, &entry, left)?;
        left = left.saturating_sub(code.len() as u64);
        if let Some(operator) = first_of(&String::from_utf8_lossy(&code)) {
            return Ok(Some(operator.to_owned()));
        }
    }
    Ok(None)
}

/// The first such operator of some code.
///
/// What draws lots below an `if` may be there for training, and is left to trial runs. A computed scale counts wherever
/// it is: it is never for training.
fn first_of(code: &str) -> Option<&str> {
    // Lines that hold those below them, by their indentation; true for branches.
    let mut around: Vec<(usize, bool)> = Vec::new();
    for line in code.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        around.truncate(around.iter().take_while(|it| it.0 < indent).count());
        let may_be_left_out = around.iter().any(|it| it.1);
        if let Some(operator) = calls(text).find_map(|it| shares(&it, may_be_left_out)) {
            return Some(operator);
        }
        if text.ends_with(':') {
            around.push((indent, text.starts_with("if ") || text.starts_with("else")));
        }
    }
    None
}

/// A call of an operator.
struct Call<'a> {
    package: &'a str,
    name: &'a str,
    /// What stands behind its bracket.
    rest: &'a str,
}

/// The calls of a line.
fn calls(line: &str) -> impl Iterator<Item = Call<'_>> {
    let is_part = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'.';
    let at_start = move |at: usize| {
        let before = at.checked_sub(1).and_then(|it| line.as_bytes().get(it));
        before.is_none_or(|it| !is_part(*it))
    };
    PACKAGES.iter().flat_map(move |package| {
        let places = line.match_indices(*package).filter(move |it| at_start(it.0));
        places.filter_map(move |(at, _)| {
            let (name, rest) = line.get(at + package.len()..)?.split_once('(')?;
            Some(Call { package, name, rest })
        })
    })
}

fn shares<'a>(call: &Call<'a>, may_be_left_out: bool) -> Option<&'a str> {
    let Call { package, name, rest } = *call;
    if package == QUANTIZED {
        return Some(name).filter(|it| it.ends_with(DYNAMIC));
    }
    if COMPUTED_SCALE.contains(&name) {
        return Some(name);
    }
    // The last `_` of a name says that the input is written to.
    let plain = name.strip_suffix('_').unwrap_or(name);
    let in_training = || {
        let (_, at) = IN_TRAINING.iter().find(|it| it.0 == plain)?;
        argument(rest, *at).filter(|it| *it == "True")
    };
    let draws = CHANCE.contains(&plain) || in_training().is_some();
    Some(name).filter(|_| draws && !may_be_left_out)
}

/// The argument of that place, behind a bracket.
fn argument(rest: &str, place: usize) -> Option<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, 0);
    for (at, byte) in rest.bytes().enumerate() {
        let ends = depth == 0 && matches!(byte, b',' | b')');
        if ends && found == place {
            return rest.get(begin..at).map(str::trim);
        }
        if ends {
            (begin, found) = (at + 1, found + 1);
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => return None,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn body(line: &str) -> String {
        format!(
            "class M(Module):\n  training : bool\n  def forward(self: M,\n    x: Tensor) -> Tensor:\n    {line}\n"
        )
    }

    #[track_caller]
    fn check(code: &str, expected: Option<&str>) {
        assert_eq!(first_of(code), expected, "{code}");
    }

    #[test]
    fn chance_and_computed_scales_are_found_in_what_always_runs() {
        for (line, operator) in [
            ("return torch.add(x, torch.randn_like(x))", "randn_like"),
            ("_0 = torch.bernoulli_(x, 0.5)", "bernoulli_"),
            ("y = torch.dropout(torch.relu(x), 0.5, True)", "dropout"),
            (
                "y = torch.batch_norm(x, w, None, [m, (v, m)][0], v, True, 0.1, 1e-05, True)",
                "batch_norm",
            ),
            ("y = torch.quantize_per_tensor_dynamic(x, 13, False)", "quantize_per_tensor_dynamic"),
            ("y = ops.quantized.linear_dynamic(x, p, True)", "linear_dynamic"),
            ("y = ops.quantized.linear_relu_dynamic(x, p)", "linear_relu_dynamic"),
            ("y = ops.aten.randn([2])", "randn"),
        ] {
            check(&body(line), Some(operator));
        }
        for line in [
            "y = torch.dropout(x, 0.5, False)",
            "y = torch.dropout_(x, p, training)",
            "y = torch.batch_norm(x, w, b, m, v, False, 0.1, 1e-05, True)",
            "y = torch.quantize_per_tensor(x, 0.1, 0, 13)",
            "y = ops.quantized.linear_dynamic_fp16(x, p)",
            "_0 = __torch__.torch.nn.functional.rand",
            "y = torch.random_things(x)",
            "y = torch.max(x)",
            "y = torch.rand",
        ] {
            check(&body(line), None);
        }
    }

    #[test]
    fn what_may_be_there_for_training_alone_is_left_to_trials() {
        let below = |condition: &str, line: &str, more: &str| {
            body(&format!("{condition}\n      pass\n    else:\n      {line}\n    {more}"))
        };
        check(&below("if _0:", "y = torch.bernoulli_(x, 0.5)", "return y"), None);
        check(&below("if _0:", "y = torch.relu(x)", "y = torch.rand([2])"), Some("rand"));
        let scale = "Y = ops.quantized.linear_dynamic(x, p)";
        check(&below("if torch.eq(dtype, 12):", scale, "return Y"), Some("linear_dynamic"));
        check(&body("for i in range(3):\n      x = torch.rand_like(x)"), Some("rand_like"));
    }

    #[test]
    fn the_code_of_an_archive_is_read_packed_or_not() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let plain = root.join("plugin/tests/models/dropped.pt");
        assert_eq!(shared_by(&plain).unwrap(), None);
        let packed = root.join("../../tests/fixtures/torchscript/transformer/1/model.pt");
        let mut file = File::open(&packed).unwrap();
        let entries = archive::entries(&mut file).unwrap();
        let code = entries.iter().find(|it| it.name.ends_with("torch/nn/functional.py")).unwrap();
        let text = archive::contents(&mut file, code, MOST_CODE).unwrap();
        assert!(text.starts_with(b"def softmax(input: Tensor,"));
        assert_eq!(text.len(), 2402);
        assert!(archive::contents(&mut file, code, 2401).is_err());
        assert_eq!(shared_by(&packed).unwrap(), None);
    }
}
