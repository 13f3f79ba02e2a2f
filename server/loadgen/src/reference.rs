//! What a server answers to a request alone, before a load: replies under load are compared with that.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    Check, CheckedReply, Error, Plan, Report, Request, Target,
    answers::{self, TOLERANCE},
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

/// Compares a sample of a plan's replies with what the server answers to each of its requests alone. It is asked twice:
/// what it answers in two ways is compared with nothing, and so is what it does not answer with a 2xx status.
///
/// # Errors
/// When the server cannot be reached.
pub(crate) fn check(plan: &Plan) -> Result<Check, Error> {
    let begun = Instant::now();
    let mut bytes = 0;
    let mut alone: Vec<Option<Vec<u8>>> = Vec::new();
    for request in &plan.requests {
        if begun.elapsed() > LONGEST || bytes > MOST_BYTES {
            break;
        }
        let answer = || ask(&plan.target, request.clone(), plan.timeout);
        let (report, first) = answer()?;
        let is_settled = report.ok == 1 && {
            let (again, second) = answer()?;
            again.ok == 1 && is_same(&first, &second)
        };
        bytes += first.len();
        alone.push(is_settled.then_some(first));
    }
    Ok(Check::Sample(Arc::new(move |reply: &CheckedReply<'_>| {
        alone.get(reply.request).and_then(Option::as_ref).is_none_or(|it| is_same(it, reply.body))
    })))
}

/// Numbers may differ a little; what is neither JSON nor numbers is known by its length.
fn is_same(alone: &[u8], given: &[u8]) -> bool {
    let is_opaque = || !answers::is_read(alone) && alone.len() == given.len();
    answers::same(alone, given, TOLERANCE).is_ok() || is_opaque()
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn answers_are_compared_by_their_numbers_or_by_their_length() {
        assert!(is_same(b"[0.5]", b"[0.50001]") && !is_same(b"[0.5]", b"[0.6]"));
        assert!(is_same(b"\x00\x01", b"\x00\x02") && !is_same(b"\x00\x01", b"\x00"));
    }
}
