//! Jobs in order, after a restart, with another clock, and when there are too many.

use super::*;
use serde_json::json;
use std::time::UNIX_EPOCH;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("muster-jobs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn open(&self) -> Jobs {
        Jobs::open(&self.0, at(1000)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

fn create(jobs: &Jobs, name: &str) -> Result<(), Fault> {
    jobs.create(name, json!({"JobName": name}), None, at(1))
}

fn status(jobs: &Jobs, name: &str) -> JobStatus {
    jobs.read(name, |it| it.status).unwrap()
}

#[test]
fn jobs_are_done_one_after_the_other_and_a_name_is_used_once() {
    let folder = Folder::new("order");
    let jobs = folder.open();
    // The clock stands still, and the order is kept.
    for name in ["b", "a", "c"] {
        create(&jobs, name).unwrap();
    }
    assert_eq!(create(&jobs, "a"), Err(Fault::in_use("there is a job 'a' already")));
    let work = jobs.next(|| at(2)).unwrap();
    assert_eq!((work.name.as_str(), status(&jobs, "b")), ("b", JobStatus::InProgress));
    assert_eq!(status(&jobs, "a"), JobStatus::Pending);
    jobs.stop("a", at(2)).unwrap();
    assert_eq!(jobs.next(|| at(2)).unwrap().name, "c");
    assert_eq!(jobs.read("a", |it| (it.status, it.ended)), Ok((JobStatus::Stopped, Some(at(2)))));

    jobs.stop("b", at(3)).unwrap();
    assert!(work.stop.load(Ordering::Relaxed));
    assert_eq!(status(&jobs, "b"), JobStatus::Stopping);
    jobs.change("b", at(4), |it| it.status = JobStatus::Stopped);
    // One that is over stays as it is.
    jobs.stop("b", at(5)).unwrap();
    assert_eq!(jobs.read("b", |it| it.modified), Ok(at(4)));
    assert_eq!(jobs.stop("x", at(5)), Err(no_job("x")));
    jobs.close();
    assert!(jobs.next(|| at(2)).is_none());
}

#[test]
fn after_a_restart_jobs_are_there_and_the_one_that_was_being_done_goes_on() {
    let folder = Folder::new("restart");
    let jobs = folder.open();
    for name in ["a", "b", "c"] {
        create(&jobs, name).unwrap();
    }
    let work = jobs.next(|| at(2)).unwrap();
    jobs.change("a", at(3), |it| it.steps.push(json!({})));
    work.folder.say("a line", at(3)).unwrap();
    jobs.stop("b", at(3)).unwrap();
    // It ends while "a" is being done, which is not written down as stopped.
    jobs.close();
    jobs.change("a", at(4), |it| it.status = JobStatus::Stopped);

    let jobs = folder.open();
    assert_eq!(jobs.read("a", |it| (it.status, it.steps.len())), Ok((JobStatus::Pending, 0)));
    assert_eq!((status(&jobs, "b"), status(&jobs, "c")), (JobStatus::Stopped, JobStatus::Pending));
    assert_eq!(jobs.said("a").unwrap()[0].message, "a line");
    assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
    let jobs = folder.open();
    assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
    // Three times is enough.
    let jobs = folder.open();
    assert_eq!(status(&jobs, "a"), JobStatus::Failed);
    assert_eq!(jobs.next(|| at(2)).unwrap().name, "c");
    jobs.stop("c", at(5)).unwrap();
    assert_eq!(status(&folder.open(), "c"), JobStatus::Stopped);
    // What cannot be read is left out.
    fs::write(folder.0.join("c/job.json"), "{").unwrap();
    fs::create_dir(folder.0.join("d")).unwrap();
    fs::write(folder.0.join("notes.txt"), "").unwrap();
    let jobs = folder.open();
    assert!(jobs.read("c", |_| ()).is_err() && jobs.read("d", |_| ()).is_err());
    assert!(!folder.0.join("d").exists());
    create(&jobs, "c").unwrap();
    assert_eq!(status(&jobs, "c"), JobStatus::Pending);
}

#[test]
fn times_of_a_job_never_run_backwards_where_the_clock_does() {
    let folder = Folder::new("clock");
    let jobs = folder.open();
    let create = |name: &str, now| jobs.create(name, json!({"JobName": name}), None, at(now));
    create("a", 5000).unwrap();
    // It is set back.
    create("b", 100).unwrap();
    let created = |name: &str| jobs.read(name, |it| it.created).unwrap();
    assert!(created("b") > created("a"));
    let times = |jobs: &Jobs, name: &str| {
        let [created, ended, modified] =
            jobs.read(name, |it| [Some(it.created), it.ended, Some(it.modified)]).unwrap();
        assert!(created <= ended && ended <= modified, "{created:?} {ended:?} {modified:?}");
    };
    jobs.stop("b", at(101)).unwrap();
    times(&jobs, "b");
    assert_eq!(jobs.next(|| at(2)).unwrap().name, "a");
    jobs.change("a", at(6000), |it| it.steps.push(json!({})));
    jobs.change("a", at(102), |it| (it.status, it.ended) = (JobStatus::Failed, Some(at(102))));
    times(&jobs, "a");
    assert_eq!(jobs.read("a", |it| it.modified), Ok(at(6000)));
    // Nor do they where the program starts again before the time of its jobs.
    create("c", 7000).unwrap();
    jobs.next(|| at(2)).unwrap();
    jobs.stop("c", at(7001)).unwrap();
    times(&folder.open(), "c");
}

#[test]
fn a_job_whose_folder_cannot_be_removed_stays() {
    let folder = Folder::new("stays");
    let jobs = folder.open();
    for number in 0..MOST {
        create(&jobs, &format!("j{number}")).unwrap();
    }
    jobs.stop("j3", at(3)).unwrap();
    // A file is in the place of the folder.
    let path = folder.0.join("j3");
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "").unwrap();
    assert!(create(&jobs, "x").is_err());
    assert_eq!(status(&jobs, "j3"), JobStatus::Stopped);
    // A folder that is gone is no reason to stay.
    fs::remove_file(&path).unwrap();
    create(&jobs, "x").unwrap();
    assert!(jobs.read("j3", |_| ()).is_err());
}

#[test]
fn the_oldest_job_that_is_over_makes_room() {
    let folder = Folder::new("room");
    let jobs = folder.open();
    for number in 0..MOST {
        create(&jobs, &format!("j{number}")).unwrap();
    }
    let text = "100 jobs are not over yet, no more are kept";
    assert_eq!(create(&jobs, "x"), Err(Fault::limit(text)));
    jobs.stop("j7", at(2)).unwrap();
    jobs.stop("j3", at(3)).unwrap();
    create(&jobs, "x").unwrap();
    assert!(jobs.read("j3", |_| ()).is_err() && jobs.read("j7", |_| ()).is_ok());
    assert!(!folder.0.join("j3").exists());
}
