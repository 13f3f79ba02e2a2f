//! Shapes and types out of libtorch's texts about those that it was given. Pure.

use backend::DataType;

use super::known::{ROWS, Sample};

/// What to try instead, the best last. `is_open`: may the input of that number be changed?
pub(super) fn refine(
    samples: &[Sample],
    line: &str,
    is_open: impl Fn(usize) -> bool,
) -> Vec<Vec<Sample>> {
    let mut better = Vec::new();
    // Two inputs that do not fit each other say nothing about what fits the module.
    let among_inputs = samples.len() > 1 && line.starts_with("The size of tensor a");
    for index in (0..samples.len()).filter(|&it| is_open(it) && !among_inputs) {
        for sample in alternatives(&samples[index], line) {
            if sample != samples[index] {
                let mut samples = samples.to_vec();
                samples[index] = sample;
                better.push(samples);
            }
        }
    }
    better
}

fn alternatives(sample: &Sample, line: &str) -> Vec<Sample> {
    let mut found = Vec::new();
    found.extend(of_type(sample, line));
    found.extend(of_rank(sample, line));
    found.extend(of_product(sample, line));
    found.extend(of_channels(sample, line));
    found.extend(of_width(sample, line));
    found.extend(of_partner(sample, line));
    found
}

/// "expected scalar type Long but found Float"; "mat1 and mat2 must have the same dtype, but got Float and
/// Half"; "Input type (float) and bias type (c10::Half) should be the same"; "indices to have one of the
/// following scalar types: Long, Int".
fn of_type(sample: &Sample, line: &str) -> Option<Sample> {
    let wanted = after(line, "scalar types: ")
        .or_else(|| after(line, "expected scalar type "))
        .or_else(|| after(line, "bias type ("))
        .or_else(|| after(line, "weight type ("))
        .or_else(|| after(line, "the same dtype, but got").and_then(second))?;
    let word = wanted.trim_start_matches("c10::");
    let word: String = word.chars().take_while(|it| it.is_alphanumeric()).collect();
    let dtype = match word.to_lowercase().as_str() {
        "long" => DataType::Int64,
        "int" => DataType::Int32,
        "float" => DataType::Fp32,
        "double" => DataType::Fp64,
        "half" => DataType::Fp16,
        "bfloat16" => DataType::Bf16,
        "bool" => DataType::Bool,
        "byte" => DataType::Uint8,
        _ => return None,
    };
    Some(Sample { dtype, dims: sample.dims.clone() })
}

/// The second of two types, in ": float != double" or " Float and Half".
fn second(text: &str) -> Option<&str> {
    let (_, second) = text.split_once(" and ").or_else(|| text.split_once(" != "))?;
    Some(second)
}

/// "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size", "Expected input to be 2D
/// or 3D, got 4D instead": the last rank before "got".
fn of_rank(sample: &Sample, line: &str) -> Option<Sample> {
    let (wanted, _) = line.split_once("got")?;
    after(wanted, "xpected ")?;
    let mut ranks = wanted.split([' ', '(', ')', ',']).filter_map(|it| {
        it.strip_suffix('D')?.parse::<usize>().ok().filter(|it| (1..=5).contains(it))
    });
    let rank = ranks.next_back()?;
    let usual = [ROWS, 3, 32, 32, 32];
    Some(Sample { dtype: sample.dtype, dims: usual[..rank].to_vec() })
}

/// "mat1 and mat2 shapes cannot be multiplied (2x7 and 30x256)": the last dimension, or where that is computed
/// from an image, the image's sides.
fn of_product(sample: &Sample, line: &str) -> Option<Sample> {
    let numbers = numbers(after(line, "cannot be multiplied (")?);
    let &[rows, given, wanted, ..] = numbers.as_slice() else { return None };
    let mut dims = sample.dims.clone();
    match dims.as_mut_slice() {
        [.., last] if *last == given => *last = wanted,
        [batch, _, height, width] if *batch == rows && given > 0 => {
            let scale = (wanted as f64 / given as f64).sqrt();
            let side = |it: usize| (it as f64 * scale).round() as usize;
            (*height, *width) = (side(*height).max(1), side(*width).max(1));
        }
        _ => return None,
    }
    Some(Sample { dtype: sample.dtype, dims })
}

/// "expected input[2, 5, 8, 8] to have 3 channels", "running_mean should contain 7 elements not 16".
fn of_channels(sample: &Sample, line: &str) -> Option<Sample> {
    let channels = match after(line, "to have ") {
        Some(it) if line.contains(" channels") => *numbers(it).first()?,
        _ => {
            let numbers = numbers(after(line, "running_mean should contain ")?);
            *numbers.get(1)?
        }
    };
    let mut dims = sample.dims.clone();
    *dims.get_mut(1)? = channels;
    Some(Sample { dtype: sample.dtype, dims })
}

/// "input.size(-1) must be equal to input_size. Expected 10, got 7", "expected input with shape [*, 16]",
/// "shape '[-1, 784]' is invalid for input of size 14".
fn of_width(sample: &Sample, line: &str) -> Option<Sample> {
    let wanted = after(line, "input_size. Expected ")
        .map(numbers)
        .and_then(|it| it.first().copied())
        .or_else(|| {
            let list = after(line, "expected input with shape [*, ").or_else(|| {
                line.contains("is invalid for input").then(|| after(line, "shape '["))?
            })?;
            let (list, _) = list.split_once(']')?;
            numbers(list).last().copied()
        })?;
    let mut dims = sample.dims.clone();
    *dims.last_mut()? = wanted;
    Some(Sample { dtype: sample.dtype, dims })
}

/// "The size of tensor a (7) must match the size of tensor b (30) at non-singleton dimension 1".
fn of_partner(sample: &Sample, line: &str) -> Option<Sample> {
    let numbers = numbers(after(line, "The size of tensor a ")?);
    let &[a, b, at] = numbers.as_slice() else { return None };
    // The dimension is counted in the tensor of more dimensions.
    let mut dims = sample.dims.clone();
    let at = at.min(dims.len().checked_sub(1)?);
    match dims[at] {
        it if it == a => dims[at] = b,
        it if it == b => dims[at] = a,
        _ => return None,
    }
    Some(Sample { dtype: sample.dtype, dims })
}

fn after<'a>(line: &'a str, part: &str) -> Option<&'a str> {
    line.split_once(part).map(|(_, rest)| rest)
}

/// The whole numbers in the text.
fn numbers(text: &str) -> Vec<usize> {
    let words = text.split(|it: char| !it.is_ascii_digit());
    words.filter_map(|it| it.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn suggests(dims: &[usize], line: &str, dtype: DataType, expected: &[usize]) {
        let sample = Sample { dtype: DataType::Fp32, dims: dims.to_vec() };
        let better = refine(&[sample], line, |_| true);
        let expected = vec![Sample { dtype, dims: expected.to_vec() }];
        assert!(better.contains(&expected), "{better:?}");
    }

    const FP32: DataType = DataType::Fp32;

    #[test]
    fn sizes_are_read_out_of_texts() {
        let line = "mat1 and mat2 shapes cannot be multiplied (2x7 and 30x256)";
        suggests(&[2, 7], line, FP32, &[2, 30]);
        let line = "mat1 and mat2 shapes cannot be multiplied (2x2048 and 512x10)";
        suggests(&[2, 3, 64, 64], line, FP32, &[2, 3, 32, 32]);
        suggests(&[2, 3, 128, 64], line, FP32, &[2, 3, 64, 32]);
        let line = "Given groups=1, weight of size [8, 1, 3, 3], expected input[2, 3, 31, 37] to have 1 \
                    channels, but got 3 channels instead";
        suggests(&[2, 3, 31, 37], line, FP32, &[2, 1, 31, 37]);
        let line = "running_mean should contain 7 elements not 16";
        suggests(&[2, 7], line, FP32, &[2, 16]);
        let line = "input.size(-1) must be equal to input_size. Expected 10, got 7";
        suggests(&[2, 5, 7], line, FP32, &[2, 5, 10]);
        let line = "Given normalized_shape=[16], expected input with shape [*, 16], but got input of \
                    size[2, 7]";
        suggests(&[2, 7], line, FP32, &[2, 16]);
        let line = "shape '[-1, 784]' is invalid for input of size 14";
        suggests(&[2, 7], line, FP32, &[2, 784]);
        let line = "The size of tensor a (7) must match the size of tensor b (30) at non-singleton \
                    dimension 1";
        suggests(&[2, 7], line, FP32, &[2, 30]);
    }

    #[test]
    fn ranks_are_read_out_of_texts() {
        let line = "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2, 7]";
        suggests(&[2, 7], line, FP32, &[2, 3, 32, 32]);
        let line = "LSTM: Expected input to be 2D or 3D, got 4D instead";
        suggests(&[2, 3, 31, 37], line, FP32, &[2, 3, 32]);
    }

    #[test]
    fn types_are_read_out_of_texts() {
        let line = "Expected tensor for argument #1 'indices' to have one of the following scalar types: \
                    Long, Int; but got torch.FloatTensor instead";
        suggests(&[2, 7], line, DataType::Int64, &[2, 7]);
        let line = "mat1 and mat2 must have the same dtype, but got Float and Half";
        suggests(&[2, 7], line, DataType::Fp16, &[2, 7]);
        let line = "expected m1 and m2 to have the same dtype, but got: float != double";
        suggests(&[2, 7], line, DataType::Fp64, &[2, 7]);
        let line = "Input type (float) and bias type (c10::BFloat16) should be the same";
        suggests(&[2, 7], line, DataType::Bf16, &[2, 7]);
    }

    #[test]
    fn inputs_that_are_known_stay_as_they_are() {
        let sample = Sample { dtype: FP32, dims: vec![2, 7] };
        let line = "mat1 and mat2 shapes cannot be multiplied (2x7 and 30x256)";
        assert!(refine(&[sample], line, |_| false).is_empty());
    }
}
