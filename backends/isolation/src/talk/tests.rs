//! A talk whose other end is the test.

use std::{
    io::{Read, Write},
    sync::mpsc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use backend::{
    About, Ask, CallCode, Control, Host, MOST_PARTS, MetricChange, MetricVerb, PartReceiver,
    PartSender, parts,
};
use serde_json::{Value, json};

use super::*;

const LONGEST: usize = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// The worker's end.
struct Theirs(UnixStream);

impl Theirs {
    fn say(&mut self, said: &Value, behind: &[u8]) {
        let json = said.to_string();
        let head = [json.len(), behind.len()].map(|it| (it as u32).to_le_bytes());
        self.0.write_all(&[head.as_flattened(), json.as_bytes(), behind].concat()).unwrap();
    }

    fn part(&mut self, call: [u64; 2], byte: u8) {
        let outputs = json!([{ "name": "y", "dtype": "Uint8", "dims": [1], "len": 1 }]);
        self.say(&json!({ "Part": { "call": call, "outputs": outputs } }), &[byte]);
    }

    fn hear(&mut self) -> (Value, Vec<u8>) {
        let mut head = [0; 8];
        self.0.read_exact(&mut head).unwrap();
        let (lengths, _) = head.as_chunks::<4>();
        let mut next = lengths.iter().map(|it| {
            let mut bytes = vec![0; u32::from_le_bytes(*it) as usize];
            self.0.read_exact(&mut bytes).unwrap();
            bytes
        });
        let json = serde_json::from_slice(&next.next().unwrap()).unwrap();
        (json, next.next().unwrap())
    }

    /// Nobody is at the other end any more.
    fn is_alone(&mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|it| it == 0)
    }
}

fn start(host: HostHandle) -> (Talk, Theirs) {
    let start = Talk::start("talk".to_owned(), Weak::new(), ("m", &host), LONGEST);
    let (talk, theirs) = start.unwrap();
    theirs.set_read_timeout(Some(PATIENCE)).unwrap();
    (talk, Theirs(theirs))
}

/// Wakes the thread of a test.
struct Wakes(mpsc::Sender<()>);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// The bytes of the next part, or how the answer has ended. Blocking.
fn next(answer: &mut PartReceiver) -> Result<Option<Vec<u8>>, CallError> {
    let (sender, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Wakes(sender)));
    loop {
        match answer.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(part) => {
                let bytes = |it: CallAnswer| it.outputs[0].tensor.to_bytes().to_vec();
                return part.map(|it| it.map(bytes));
            }
            Poll::Pending => woken.recv_timeout(PATIENCE).unwrap(),
        }
    }
}

/// A run of one call that is answered in parts.
fn begin(talk: &Talk, run: u64) -> PartReceiver {
    let (sender, receiver) = parts();
    let about = About { lineage: vec!["outer".into()], ..About::default() };
    let call = Call { rows: 1, outputs: &[], about: Some(&about), parts: Some(&sender) };
    talk.begin(run, &[call], None);
    receiver
}

fn has_begun(talk: &Talk, run: u64) {
    talk.finish(run, Some(&[Ok(CallAnswer::default())]));
}

#[test]
fn parts_come_in_their_order_and_the_worker_is_told_which_were_read() {
    let (talk, mut theirs) = start(HostHandle::default());
    let mut answer = begin(&talk, 3);
    theirs.part([3, 0], 7);
    assert_eq!(next(&mut answer), Ok(Some(vec![7])));
    theirs.say(&json!({ "Full": { "call": [3, 0] } }), &[]);
    assert_eq!(theirs.hear().0, json!({ "Taken": { "call": [3, 0], "parts": 1 } }));
    has_begun(&talk, 3);
    theirs.part([3, 0], 8);
    theirs.say(&json!({ "End": { "call": [3, 0], "error": null } }), &[]);
    theirs.part([3, 0], 9);
    assert_eq!(next(&mut answer), Ok(Some(vec![8])));
    assert_eq!(next(&mut answer), Ok(None));
}

#[test]
fn a_worker_is_told_of_several_parts_at_once_and_of_the_next_where_it_waits_for_that() {
    let (talk, mut theirs) = start(HostHandle::default());
    let mut answer = begin(&talk, 0);
    let told = |parts: usize| json!({ "Taken": { "call": [0, 0], "parts": parts } });
    let half = MOST_PARTS / 2;
    (0..MOST_PARTS).for_each(|_| theirs.part([0, 0], 1));
    (0..MOST_PARTS - 1).for_each(|_| assert_eq!(next(&mut answer), Ok(Some(vec![1]))));
    assert_eq!(theirs.hear().0, told(half));
    theirs.say(&json!({ "Full": { "call": [0, 0] } }), &[]);
    assert_eq!(theirs.hear().0, told(half - 1));
    // Nothing was read that it does not know of: it is told of the next one, and not of the one behind that.
    theirs.say(&json!({ "Full": { "call": [0, 0] } }), &[]);
    (0..half).for_each(|_| theirs.part([0, 0], 2));
    assert_eq!(next(&mut answer), Ok(Some(vec![1])));
    assert_eq!(theirs.hear().0, told(1));
    (0..half).for_each(|_| assert_eq!(next(&mut answer), Ok(Some(vec![2]))));
    assert_eq!(theirs.hear().0, told(half));
}

#[test]
fn a_run_whose_request_is_run_once_more_has_ended_when_its_parts_have_come() {
    let (talk, mut theirs) = start(HostHandle::default());
    let (sender, mut answer) = parts();
    for run in 0..2 {
        let call = Call { rows: 1, outputs: &[], about: None, parts: Some(&sender) };
        talk.begin(run, &[call], None);
        let again = CallAnswer { again: true, ..CallAnswer::default() };
        thread::scope(|scope| {
            let ended = scope.spawn(|| talk.finish(run, Some(&[Ok(again)])));
            thread::sleep(Duration::from_millis(20));
            assert!(!ended.is_finished());
            theirs.part([run, 0], run as u8);
            theirs.say(&json!({ "Again": { "call": [run, 0] } }), &[]);
        });
        // Its answer goes on.
        assert!(sender.has_sent() && !sender.has_ended());
        assert_eq!(next(&mut answer), Ok(Some(vec![run as u8])));
    }
    // One whose worker is gone is not waited for.
    let call = Call { rows: 1, outputs: &[], about: None, parts: Some(&sender) };
    talk.begin(2, &[call], None);
    drop(theirs);
    talk.finish(2, Some(&[Ok(CallAnswer { again: true, ..CallAnswer::default() })]));
}

#[test]
fn a_worker_is_told_that_nobody_waits_and_may_go_on() {
    let (talk, mut theirs) = start(HostHandle::default());
    drop(begin(&talk, 0));
    assert_eq!(theirs.hear().0, json!({ "Left": { "call": [0, 0] } }));
    theirs.part([0, 0], 1);
    theirs.say(&json!({ "End": { "call": [0, 0], "error": null } }), &[]);
    let mut answer = begin(&talk, 1);
    theirs.part([1, 0], 2);
    assert_eq!(next(&mut answer), Ok(Some(vec![2])));
}

#[test]
fn what_has_begun_ends_with_the_worker_and_what_has_not_is_left_to_its_run() {
    let (talk, mut theirs) = start(HostHandle::default());
    let (mut begun, mut running) = (begin(&talk, 0), begin(&talk, 1));
    has_begun(&talk, 0);
    theirs.part([0, 0], 7);
    drop(theirs);
    assert_eq!(next(&mut begun), Ok(Some(vec![7])));
    assert_eq!(next(&mut begun).unwrap_err().code, CallCode::Unavailable);
    let polled = running.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    // It was answered all the same.
    has_begun(&talk, 1);
    assert_eq!(next(&mut running).unwrap_err().code, CallCode::Unavailable);
}

#[test]
fn a_run_without_an_answer_leaves_its_calls_to_whoever_makes_it_again() {
    let (talk, _theirs) = start(HostHandle::default());
    let (sender, mut receiver) = parts();
    let call = Call { rows: 1, outputs: &[], about: None, parts: Some(&sender) };
    talk.begin(0, &[call], None);
    talk.finish(0, None);
    assert!(!sender.has_ended());
    talk.begin(1, &[call], None);
    let refused = CallError { code: CallCode::Internal, text: "no".to_owned() };
    talk.finish(1, Some(&[Err(refused.clone())]));
    assert_eq!(next(&mut receiver), Err(refused));
}

#[test]
fn a_worker_that_breaks_the_rules_is_not_listened_to_any_more() {
    let too_many = |it: &mut Theirs| (0..=MOST_PARTS).for_each(|_| it.part([0, 0], 1));
    let no_json = |it: &mut Theirs| it.say(&json!({ "Unknown": 1 }), &[]);
    let outside = |it: &mut Theirs| {
        let outputs = json!([{ "name": "y", "dtype": "Fp32", "dims": [2], "len": 8 }]);
        it.say(&json!({ "Part": { "call": [0, 0], "outputs": outputs } }), &[0; 4]);
    };
    let untold =
        |it: &mut Theirs| it.say(&json!({ "Part": { "call": [0, 0], "outputs": [] } }), &[0]);
    let long = |it: &mut Theirs| it.0.write_all(&[0xff; 8]).unwrap();
    let all: [fn(&mut Theirs); 5] = [too_many, no_json, outside, untold, long];
    for (which, breaks) in all.into_iter().enumerate() {
        let (talk, mut theirs) = start(HostHandle::default());
        let _answer = begin(&talk, 0);
        breaks(&mut theirs);
        assert!(theirs.is_alone(), "{which}");
    }
}

#[test]
fn a_lane_that_is_dropped_ends_its_talk_once_nobody_waits_for_a_call() {
    let (talk, mut theirs) = start(HostHandle::default());
    let mut answer = begin(&talk, 0);
    has_begun(&talk, 0);
    drop(talk);
    theirs.part([0, 0], 7);
    assert_eq!(next(&mut answer), Ok(Some(vec![7])));
    drop(answer);
    while !theirs.is_alone() {}
}

/// Answers each request with its inputs, twice, and says what it was asked.
struct Echo(mpsc::Sender<Ask>);

impl Host for Echo {
    fn infer(&self, ask: Ask, answer: PartSender) {
        let part = || CallAnswer { outputs: ask.inputs.clone(), ..CallAnswer::default() };
        if &*ask.model != "silent" {
            answer.send(part()).unwrap();
            answer.send(part()).unwrap();
            answer.end(Ok(()));
        }
        let sender = self.0.clone();
        let model = ask.model.clone();
        if &*model == "silent" {
            let again = ask.clone();
            answer.on_left(move || sender.send(again).unwrap());
            // Kept until nobody waits.
            std::mem::forget(answer.clone());
        }
        self.0.send(ask).unwrap();
    }

    fn is_ready(&self, model: &str, version: Option<u64>) -> bool {
        model == "there" && version == Some(2)
    }

    fn control(&self, control: Control) -> Result<(), CallError> {
        match control {
            Control::Load { files, .. } if files == [("file:1/a".to_owned(), vec![1, 2])] => Ok(()),
            other => Err(CallError { code: CallCode::NotFound, text: format!("{other:?}") }),
        }
    }

    fn metric(&self, change: MetricChange) -> Result<f64, CallError> {
        match change.verb {
            MetricVerb::Increment(by) => Ok(by + 1.0),
            _ => Err(CallError { code: CallCode::InvalidArg, text: change.family }),
        }
    }
}

fn infer(ask: u64, model: &str, calls: &Value) -> Value {
    let inputs = json!([{ "name": "x", "dtype": "Fp32", "dims": [1], "len": 4 }]);
    json!({ "Infer": { "ask": ask, "model": model, "calls": calls, "inputs": inputs } })
}

#[test]
fn a_models_request_is_answered_part_by_part_and_says_who_has_led_to_it() {
    let (sender, asked) = mpsc::channel();
    let (talk, mut theirs) = start(HostHandle(Some(Arc::new(Echo(sender)))));
    let _answer = begin(&talk, 0);
    theirs.say(&infer(5, "other", &json!([[0, 0]])), &1.5f32.to_le_bytes());
    for _ in 0..2 {
        let (said, behind) = theirs.hear();
        assert_eq!(said["Answered"]["ask"], 5);
        assert_eq!(said["Answered"]["outputs"][0]["name"], "x");
        assert_eq!(behind, 1.5f32.to_le_bytes());
    }
    assert_eq!(theirs.hear().0, json!({ "Ended": { "ask": 5, "error": null, "value": null } }));
    let asked = asked.recv_timeout(PATIENCE).unwrap();
    let lineage: Vec<&str> = asked.lineage.iter().map(|it| &**it).collect();
    assert_eq!((lineage, &*asked.model), (vec!["outer", "m"], "other"));
    assert_eq!(asked.inputs[0].tensor.as_slice_of::<f32>(), Some([1.5].as_slice()));
    // Not within a call.
    theirs.say(&infer(6, "other", &json!([[9, 0]])), &[0; 4]);
    assert!(theirs.hear().0["Ended"]["error"]["text"].as_str().unwrap().starts_with("BLS is only"));
}

#[test]
fn a_request_that_is_cancelled_has_nobody_who_waits() {
    let (sender, asked) = mpsc::channel();
    let (talk, mut theirs) = start(HostHandle(Some(Arc::new(Echo(sender)))));
    let _answer = begin(&talk, 0);
    theirs.say(&infer(1, "silent", &json!([[0, 0]])), &[0; 4]);
    asked.recv_timeout(PATIENCE).unwrap();
    theirs.say(&json!({ "Cancel": { "ask": 1 } }), &[]);
    asked.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn loads_metrics_and_questions_are_answered_by_the_server_where_there_is_one() {
    let (sender, _asked) = mpsc::channel();
    let (_talk, mut theirs) = start(HostHandle(Some(Arc::new(Echo(sender)))));
    let load = json!({ "Load": { "model": "n", "config": "", "files": [["file:1/a", 2]] } });
    theirs.say(&json!({ "Control": { "ask": 1, "verb": load } }), &[1, 2]);
    assert_eq!(theirs.hear().0["Ended"], json!({ "ask": 1, "error": null, "value": null }));
    let unload = json!({ "Unload": { "model": "n", "dependents": true } });
    theirs.say(&json!({ "Control": { "ask": 2, "verb": unload } }), &[]);
    assert_eq!(theirs.hear().0["Ended"]["error"]["code"], "NotFound");
    let ready = json!({ "IsReady": { "model": "there", "version": 2 } });
    theirs.say(&json!({ "Control": { "ask": 3, "verb": ready } }), &[]);
    assert_eq!(theirs.hear().0["Ended"]["value"], true);
    let metric = |ask: Value, verb: Value| {
        json!({ "Metric": { "ask": ask, "family": "f", "description": "", "kind": "Counter",
                            "labels": { "a": "b" }, "verb": verb } })
    };
    theirs.say(&metric(Value::Null, json!({ "Increment": 1.0 })), &[]);
    theirs.say(&metric(json!(4), json!({ "Increment": 1.5 })), &[]);
    assert_eq!(theirs.hear().0["Ended"], json!({ "ask": 4, "error": null, "value": 2.5 }));
    theirs.say(&metric(json!(5), json!("Value")), &[]);
    assert_eq!(theirs.hear().0["Ended"]["error"]["text"], "f");
    let (_talk, mut theirs) = start(HostHandle::default());
    theirs.say(&metric(json!(4), json!("Value")), &[]);
    assert_eq!(theirs.hear().0["Ended"]["error"]["code"], "Unavailable");
}
