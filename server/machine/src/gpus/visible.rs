//! Which of a machine's GPUs CUDA shows to this process, and under which numbers. Pure.

use super::{Gpu, Gpus, Lack, Visibility};

/// A GPU of the machine. Their order is that of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) about: About,
    /// The parts that it is cut into; `None` where it is one piece. Those that are not part of a part are
    /// unusable, so an empty list is a GPU that cannot be used.
    pub(super) parts: Option<Vec<About>>,
}

/// What is known of a GPU, or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    pub(super) uuid: String,
    pub(super) name: String,
    pub(super) memory: Option<u64>,
    pub(super) capability: Option<String>,
}

/// The visible ones, by CUDA's rules: `CUDA_VISIBLE_DEVICES` names numbers or the beginnings of identifiers;
/// what it names ends at the first entry that is none, and one that is there twice hides all. A process
/// sees one part of a GPU at most, and no whole ones beside it.
pub(super) fn visible(all: &[Whole], visibility: &Visibility) -> Gpus {
    if all.is_empty() {
        let reason = "the NVIDIA driver knows of no GPU".to_owned();
        return Gpus::none(reason, Lack::NoDriver, visibility);
    }
    let (mut chosen, lack) = match &visibility.cuda {
        None => (all.iter().filter_map(Choice::of).collect(), without_parts(all)),
        Some(list) => choose(all, list),
    };
    let mut lacks = Vec::from_iter(lack);
    if let Some(part) = chosen.iter().find(|it| it.is_part()).copied() {
        let beside = chosen.iter().map(|it| it.pieces).sum::<usize>() - 1;
        if 0 < beside {
            let problem = format!(
                "of GPUs that are cut into parts (MIG) CUDA shows a process one part and nothing else: {} is \
                 used, and {beside} more would be there; to choose, name one in CUDA_VISIBLE_DEVICES",
                part.about.uuid
            );
            lacks.push((Lack::Fault, problem));
        }
        chosen = vec![part];
    }
    let found: Vec<Gpu> = (0..)
        .zip(chosen)
        .map(|(number, Choice { about, .. })| Gpu {
            number,
            uuid: about.uuid.clone(),
            name: about.name.clone(),
            memory: about.memory,
            capability: about.capability.clone(),
        })
        .collect();
    let lack = lacks.first().map_or(Lack::Nothing, |it| it.0);
    let reasons: Vec<String> = lacks.into_iter().map(|it| it.1).collect();
    Gpus { found, reason: reasons.join("; "), lack }
}

/// What CUDA would show, were nothing else chosen.
#[derive(Clone, Copy)]
struct Choice<'a> {
    about: &'a About,
    /// Pieces of the machine that it stands for: itself, and with the first part of a GPU the others.
    pieces: usize,
    kind: Piece,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Whole,
    Part,
}

impl<'a> Choice<'a> {
    /// A GPU, or its first part.
    fn of(gpu: &'a Whole) -> Option<Choice<'a>> {
        Some(match &gpu.parts {
            None => Choice { about: &gpu.about, pieces: 1, kind: Piece::Whole },
            Some(parts) => Choice { about: parts.first()?, pieces: parts.len(), kind: Piece::Part },
        })
    }

    fn is_part(&self) -> bool {
        self.kind == Piece::Part
    }
}

/// GPUs that should be in parts and are in none.
fn without_parts(all: &[Whole]) -> Option<(Lack, String)> {
    let empty = all.iter().filter(|it| it.parts.as_ref().is_some_and(Vec::is_empty));
    let empty: Vec<&str> = empty.map(|it| it.about.uuid.as_str()).collect();
    let problem = format!("cut into parts (MIG), of which there are none: {}", empty.join(", "));
    (!empty.is_empty()).then_some((Lack::Fault, problem))
}

/// Those that the list names; and why some are missing that should be there.
fn choose<'a>(all: &'a [Whole], list: &str) -> (Vec<Choice<'a>>, Option<(Lack, String)>) {
    let mut chosen: Vec<Choice<'a>> = Vec::new();
    let has = |all: &[Whole]| match all.len() {
        1 => "the GPU of this machine".to_owned(),
        count => format!("{count} GPUs of this machine"),
    };
    if ["", "-1"].contains(&list.trim()) {
        let reason = format!("CUDA_VISIBLE_DEVICES is '{list}', which hides {}", has(all));
        return (chosen, Some((Lack::Hidden, reason)));
    }
    for entry in list.split(',').map(str::trim) {
        let Some(next) = named(all, entry) else {
            let problem = format!(
                "CUDA_VISIBLE_DEVICES is '{list}': '{entry}' is none of {}, and CUDA heeds nothing from \
                 there on",
                has(all)
            );
            return (chosen, Some((Lack::Fault, problem)));
        };
        if chosen.iter().any(|it| it.about.uuid == next.about.uuid) {
            let problem = format!(
                "CUDA_VISIBLE_DEVICES is '{list}', which names a GPU twice: CUDA then shows none"
            );
            return (Vec::new(), Some((Lack::Fault, problem)));
        }
        chosen.push(next);
    }
    (chosen, None)
}

/// The GPU, or the part of one, that an entry of the list names.
fn named<'a>(all: &'a [Whole], entry: &str) -> Option<Choice<'a>> {
    if entry.starts_with("GPU-") {
        let mut alike = all.iter().filter(|it| it.about.uuid.starts_with(entry));
        let one = alike.next().filter(|_| alike.next().is_none())?;
        return Choice::of(one);
    }
    if entry.starts_with("MIG-") {
        let parts = all.iter().flat_map(|it| it.parts.iter().flatten());
        let mut alike = parts.filter(|it| it.uuid.starts_with(entry));
        let about = alike.next().filter(|_| alike.next().is_none())?;
        return Some(Choice { about, pieces: 1, kind: Piece::Part });
    }
    // As C reads numbers: what follows the digits does not count.
    let end = entry.find(|it: char| !it.is_ascii_digit()).unwrap_or(entry.len());
    let number: usize = entry.get(..end)?.parse().ok()?;
    Choice::of(all.get(number)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(uuid: &str) -> About {
        About { uuid: uuid.to_owned(), name: "T".to_owned(), memory: Some(1), capability: None }
    }

    fn whole(uuid: &str) -> Whole {
        Whole { about: about(uuid), parts: None }
    }

    fn three() -> Vec<Whole> {
        vec![whole("GPU-aa11"), whole("GPU-aa22"), whole("GPU-bb33")]
    }

    fn gpus(all: &[Whole], cuda: Option<&str>) -> Gpus {
        visible(all, &Visibility { cuda: cuda.map(str::to_owned), container: None })
    }

    fn see(all: &[Whole], cuda: Option<&str>) -> (String, String) {
        let gpus = gpus(all, cuda);
        let numbers = gpus.found.iter().map(|it| it.number);
        assert!(numbers.eq(0..u32::try_from(gpus.found.len()).unwrap()));
        let uuids: Vec<&str> = gpus.found.iter().map(|it| it.uuid.as_str()).collect();
        (uuids.join(" "), gpus.reason)
    }

    /// Of three whole GPUs, these are seen, in this order; and the reason has this in it.
    #[track_caller]
    fn check(cuda: &str, uuids: &str, reason: &str) {
        let (seen, why) = see(&three(), Some(cuda));
        assert_eq!(seen, uuids);
        assert!(why.contains(reason) && why.is_empty() == reason.is_empty(), "{why}");
    }

    #[test]
    fn without_a_list_all_are_seen_in_the_order_of_the_bus() {
        let all = ("GPU-aa11 GPU-aa22 GPU-bb33".to_owned(), String::new());
        assert_eq!(see(&three(), None), all);
        assert_eq!(see(&[], None), (String::new(), "the NVIDIA driver knows of no GPU".to_owned()));
    }

    #[test]
    fn a_list_of_numbers_gives_the_order() {
        check("2,0", "GPU-bb33 GPU-aa11", "");
        check(" 1 ", "GPU-aa22", "");
        check("1gpu, 2x", "GPU-aa22 GPU-bb33", "");
    }

    #[test]
    fn an_empty_list_and_minus_one_hide_all() {
        check("", "", "CUDA_VISIBLE_DEVICES is '', which hides 3 GPUs of this machine");
        check("-1", "", "CUDA_VISIBLE_DEVICES is '-1', which hides");
    }

    #[test]
    fn a_list_ends_at_the_first_entry_that_is_no_gpu() {
        check("1,-1,0", "GPU-aa22", "'-1' is none of 3 GPUs");
        check("0,7,1", "GPU-aa11", "'7' is none of 3 GPUs");
        check("none", "", "'none' is none of");
    }

    #[test]
    fn a_gpu_that_is_named_twice_hides_all() {
        check("0,1,0", "", "names a GPU twice");
    }

    #[test]
    fn identifiers_may_be_cut_short_as_long_as_they_mean_one() {
        check("GPU-bb,GPU-aa22", "GPU-bb33 GPU-aa22", "");
        check("GPU-bb,GPU-aa", "GPU-bb33", "'GPU-aa' is none of");
        check("gpu-bb", "", "is none of");
    }

    #[test]
    fn gpus_hidden_on_purpose_are_distinguished_from_likely_mistakes() {
        let lack = |all: &[Whole], cuda| gpus(all, cuda).lack;
        assert_eq!(lack(&three(), None), Lack::Nothing);
        assert_eq!(lack(&three(), Some("1")), Lack::Nothing);
        assert_eq!(lack(&[], None), Lack::NoDriver);
        assert_eq!(lack(&three(), Some(" -1")), Lack::Hidden);
        assert_eq!(lack(&three(), Some("")), Lack::Hidden);
        assert_eq!(lack(&three(), Some("7")), Lack::Fault);
        assert_eq!(lack(&three(), Some("1,1")), Lack::Fault);
        assert_eq!(lack(&cut()[2..], None), Lack::Fault);
    }

    /// One GPU in parts, another whole, a third in no parts although it should be.
    fn cut() -> Vec<Whole> {
        let parts = vec![about("MIG-1"), about("MIG-2")];
        let mut all = three();
        all[0].parts = Some(parts);
        all[2].parts = Some(Vec::new());
        all
    }

    #[test]
    fn of_gpus_in_parts_the_first_part_is_seen_and_nothing_beside_it() {
        #[track_caller]
        fn check(all: &[Whole], cuda: Option<&str>, uuids: &str, reasons: &[&str]) {
            let (seen, why) = see(all, cuda);
            assert_eq!(seen, uuids);
            let told = reasons.iter().all(|it| why.contains(it));
            assert!(told && why.is_empty() == reasons.is_empty(), "{why}");
            let lack = if reasons.is_empty() { Lack::Nothing } else { Lack::Fault };
            assert_eq!(gpus(all, cuda).lack, lack);
        }
        let none = "of which there are none: GPU-bb33";
        check(&cut(), None, "MIG-1", &["MIG-1 is used, and 2 more would be there", none]);
        check(&cut(), Some("1,0"), "MIG-1", &["2 more would be there"]);
        check(&cut(), Some("0"), "MIG-1", &["1 more would be there"]);
        check(&cut(), Some("1"), "GPU-aa22", &[]);
        check(&cut(), Some("MIG-2"), "MIG-2", &[]);
        check(&cut()[1..], None, "GPU-aa22", &[none]);
        check(&cut()[2..], None, "", &[none]);
    }
}
