//! What a server answers to a request alone, before a load: replies under load are compared with that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Check, CheckedReply, Error, Plan, Report, Request, Target,
    answers::{self, Mismatch},
    check::WrongReply,
};

/// Further requests are not asked about beforehand once this has taken so long, or their answers take so many bytes.
const LONGEST: Duration = Duration::from_secs(5);
const MOST_BYTES: usize = 256 << 20;

/// Sends one request over a connection of its own. What came of it, and the body of a reply with a 2xx status.
///
/// # Errors
/// When the server cannot be reached.
pub fn ask(
    target: &Target,
    request: Request,
    timeout: Duration,
) -> Result<(Report, Vec<u8>), Error> {
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let keep = seen.clone();
    let mut plan = Plan::new(target.clone(), vec![request]);
    (plan.duration, plan.count) = (None, Some(1));
    plan.timeout = timeout;
    plan.check = Check::FirstReply(Arc::new(move |it| {
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = it.body.to_vec();
        true
    }));
    let report = plan.run()?;
    let body = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((report, body))
}

/// Compares the answer that a request has alone with another one, and says how that differs.
pub(crate) type Same = dyn Fn(&[u8], &[u8]) -> Result<(), Mismatch> + Send + Sync;

/// What comes of asking beforehand.
pub(crate) struct Reference {
    /// Compares replies under load.
    pub(crate) check: Check,
    /// Has the server answered one of the requests in two ways?
    pub(crate) varies: bool,
}

/// Compares a sample of a plan's replies with what the server answers to each of its requests alone. It is asked twice:
/// what it answers in two ways is compared with nothing, and so is what it does not answer with a 2xx status. What the
/// plan's own check of first replies says must hold, too; where there is nothing to compare with, that is all.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn check(plan: &Plan, same: Arc<Same>) -> Result<Reference, Error> {
    let begun = Instant::now();
    let (mut bytes, mut varies) = (0, false);
    let mut alone: Vec<Option<Vec<u8>>> = Vec::new();
    for request in &plan.requests {
        if begun.elapsed() > LONGEST || bytes > MOST_BYTES {
            break;
        }
        let answer = || ask(&plan.target, request.clone(), plan.timeout);
        let (report, first) = answer()?;
        let has_time = begun.elapsed() <= LONGEST;
        let is_settled = report.ok == 1 && has_time && {
            let (again, second) = answer()?;
            let is_same = same(&first, &second).is_ok();
            varies |= again.ok == 1 && !is_same;
            again.ok == 1 && is_same
        };
        bytes += first.len();
        alone.push(is_settled.then_some(first));
    }
    let form = match &plan.check {
        Check::FirstReply(judge) if alone.iter().all(Option::is_none) => {
            return Ok(Reference { check: Check::FirstReply(judge.clone()), varies });
        }
        Check::FirstReply(judge) => Some(judge.clone()),
        Check::Nothing | Check::Sample(_) | Check::EveryBody(_) => None,
    };
    // The form of what came alone is judged once: a load has no time to read each answer that has not a byte changed.
    let is_formed = |(request, body): (usize, &Option<Vec<u8>>)| {
        body.as_ref().is_some_and(|body| {
            let reply = CheckedReply { request, status: 200, body };
            form.as_ref().is_none_or(|it| it(&reply))
        })
    };
    let formed: Vec<bool> = alone.iter().enumerate().map(is_formed).collect();
    let critic = move |reply: &CheckedReply<'_>| {
        let alone = alone.get(reply.request).and_then(Option::as_ref);
        let is_formed = formed.get(reply.request).copied().unwrap_or_default();
        if is_formed && alone.is_some_and(|it| it == reply.body) {
            return Ok(());
        }
        if form.as_ref().is_some_and(|it| !it(reply)) {
            return Err(WrongReply::NoAnswer);
        }
        Ok(alone.map_or(Ok(()), |it| same(it, reply.body))?)
    };
    Ok(Reference { check: Check::Sample(Arc::new(critic)), varies })
}

/// Compares answers of any kind. Numbers may differ by this share; what is neither JSON nor numbers is known by its
/// length.
pub(crate) fn same_body(alone: &[u8], given: &[u8], tolerance: f64) -> Result<(), Mismatch> {
    let Err(difference) = answers::same(alone, given, tolerance) else { return Ok(()) };
    if !answers::is_read(alone) && alone.len() == given.len() {
        return Ok(());
    }
    let enough = answers::needed(alone, given);
    let enough =
        enough.map_or_else(String::new, |it| format!("; --tolerance {it} would be enough"));
    Err(Mismatch(format!("{difference}{enough}")))
}

#[cfg(test)]
mod tests {
    use super::same_body;

    #[test]
    fn answers_are_compared_by_their_numbers_or_by_their_length() {
        let same = |a: &[u8], b: &[u8]| same_body(a, b, 1e-3).is_ok();
        assert!(same(b"[0.5]", b"[0.50001]") && !same(b"[0.5]", b"[0.6]"));
        assert!(same(b"\x00\x01", b"\x00\x02") && !same(b"\x00\x01", b"\x00"));
        let told = |given: &[u8], tolerance| {
            same_body(b"[0.5]", given, tolerance).unwrap_err().to_string()
        };
        let enough = "/0 is 0.6 instead of 0.5; --tolerance 0.2 would be enough";
        assert_eq!(told(b"[0.6]", 1e-3), enough);
        assert_eq!(told(b"[\"a\"]", 1e-3), "/0 is another");
        assert_eq!(same_body(b"[0.5]", b"[0.6]", 0.2), Ok(()));
    }
}
