//! Faults of the machine around the server: its disk, its log, its descriptors, its processors, its ports, and its end.

use std::{fs, thread, time::Duration};

use rustix::{
    process::{Pid, Resource, Rlimit, getrlimit, prlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::server::Gate;
use crate::support::{Client, Process, ask, check_end, first_of, infer, post_head, row, wait_for};

impl Gate {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.process.id() as i32)
    }

    /// The disk of the file of traces is full from the start.
    pub fn full_disk(&self) {
        for number in 0..50 {
            let reply = self.post("canary", row(number).as_bytes());
            assert_eq!(first_of(&reply), f64::from(number));
        }
        wait_for("a trace that cannot be written", || {
            (0 < self.lines("traces cannot be written")).then_some(())
        });
    }

    /// Nobody reads the log, while each request has lines in it; a pipe holds 64 KiB.
    pub fn unread_log(&self) {
        let set_level = |level: u32| {
            let setting = format!("{{\"log_verbose_level\":{level}}}");
            self.client().post("/v2/logging", &[], setting).expect(200);
        };
        set_level(2);
        let held = self.process.hold_log();
        let (mut client, long) = (self.client(), "x".repeat(1000));
        for _ in 0..300 {
            client.post(&infer("canary"), &[("x-request-id", &long)], "{").error(400);
        }
        assert_eq!(first_of(&client.post(&infer("canary"), &[], row(1))), 1.0);
        drop(held);
        set_level(0);
    }

    pub fn idle_connections(&self) {
        let connect = |_| {
            let mut client = self.client();
            client.get("/v2/health/live").expect(200);
            client
        };
        let idle: Vec<Client> = (0..500).map(connect).collect();
        assert_eq!(first_of(&self.post("canary", row(7).as_bytes())), 7.0);
        drop(idle);
    }

    /// Connections that have been idle for long make room for those that come.
    pub fn no_descriptors(&self) {
        const REFUSED: &str = "cannot accept a connection";
        let connect = |_| {
            let mut client = self.client();
            client.get("/v2/health/live").expect(200);
            client
        };
        let idle: Vec<Client> = (0..100).map(connect).collect();
        // Whoever asks all the time is not among those that have been idle for longest.
        thread::sleep(Duration::from_millis(500));
        let (before, open) = (self.lines(REFUSED), self.holdings().descriptors as u64);
        let limits = getrlimit(Resource::Nofile);
        let few = Rlimit { current: Some(open + 3), maximum: limits.maximum };
        let own = prlimit(self.pid(), Resource::Nofile, few).unwrap();
        let crowd: Vec<Client> = (0..20).map(connect).collect();
        wait_for("the server to have no descriptor", || {
            (before < self.lines(REFUSED)).then_some(())
        });
        assert_eq!(first_of(&self.post("canary", row(8).as_bytes())), 8.0);
        prlimit(self.pid(), Resource::Nofile, own).unwrap();
        drop((idle, crowd));
    }

    /// All threads of the server on these processors.
    fn set_processors(&self, set: &CpuSet) {
        for task in fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap() {
            let task: i32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
            // It may have ended.
            let _ = sched_setaffinity(Pid::from_raw(task), set);
        }
    }

    /// One processor is left, until that is noticed, and then all are there again. Where there is but one, there is
    /// nothing to take away.
    pub fn fewer_processors(&self) {
        const CHANGED: &str = "the processors of this process have changed";
        let all = sched_getaffinity(self.pid()).unwrap();
        let Some(first) = (0..CpuSet::MAX_CPU).find(|it| all.is_set(*it)) else { return };
        let mut one = CpuSet::new();
        one.set(first);
        if all.count() == 1 {
            return;
        }
        for set in [one, all] {
            let before = self.lines(CHANGED);
            self.set_processors(&set);
            wait_for("the change to be noticed", || (before < self.lines(CHANGED)).then_some(()));
        }
    }

    /// Another server with the same models ends before it loads any, as this one has its ports.
    pub fn ports_in_use(&self) {
        for (flag, address) in [("http", self.http), ("grpc", self.grpc)] {
            let flag = format!("--{flag}-port={}", address.port());
            let another = Process::start(&self.repository, &[&flag], &[]);
            let finished = check_end(another, 1, "cannot listen on");
            assert!(finished.last().contains(&address.to_string()), "{}", finished.last());
            let has_loaded = |it: &String| it.contains("model is ready");
            assert!(!finished.log.iter().any(has_loaded), "{:#?}", finished.log);
        }
        assert_eq!(first_of(&self.post("canary", row(9).as_bytes())), 9.0);
    }

    /// SIGTERM twice at once, under load and while a model loads: all that was taken is answered.
    pub fn ends_in_order(self) {
        let late = self.config_with("canary", "creation_delay_sec", "600");
        let folder = self.repository.path().join("late");
        fs::create_dir_all(folder.join("1")).unwrap();
        fs::write(folder.join("config.pbtxt"), late).unwrap();
        let mut loading = self.client();
        loading.send(post_head("/v2/repository/models/late/load", &[], 0)).unwrap();
        wait_for("the load to begin", || {
            let index = self.client().post("/v2/repository/index", &[], "").text();
            index.contains("LOADING").then_some(())
        });
        drop(loading);
        let models = ["slow", "canary", "canary_apart", "poisoned"];
        let ask = |number: usize| ask(self.http, models[number % 4], row(number as i32));
        let mut clients: Vec<Client> = (0..60).map(ask).collect();
        self.process.signal("TERM");
        self.process.signal("TERM");
        let mut answers = 0;
        for (number, client) in clients.iter_mut().enumerate() {
            let reply = client.reply();
            match reply.status {
                200 => assert_eq!(first_of(&reply), number as f64),
                _ => assert!(!reply.error(503).is_empty()),
            }
            answers += usize::from(reply.status == 200);
        }
        let finished = self.process.wait();
        assert_eq!(finished.status.code(), Some(0), "{}", finished.last());
        println!("{answers} of 60 requests at the end were answered, the others refused");
        assert!(0 < answers);
    }
}
