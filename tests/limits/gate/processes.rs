//! Faults of models in processes of their own: crashes, runs that do not end, leaks, memory that is used up, a GPU that
//! is lost, processes that stand still, code that reaches beyond its model.

use std::fs;

use rustix::process::Signal;

use super::server::{Gate, MEMORY, RUN_LIMIT};
use crate::support::{
    Client, Page, ask, first_of, infer,
    measures::try_anonymous,
    row,
    sandbox::check_denied,
    wait_for,
    workers::{is_gone, kill, of_worker, signal, workers},
};

impl Gate {
    /// One request kills its process twice; one process is killed from outside, again and again.
    pub fn crashes(&self) {
        let error = self.post("killed", row(666).as_bytes()).error(500);
        assert!(error.contains("SIGABRT"), "{error}");
        for _ in 0..3 {
            let mut clients: Vec<Client> =
                (0..4).map(|_| ask(self.http, "killed", row(5))).collect();
            self.workers_of("killed").into_iter().for_each(kill);
            for client in &mut clients {
                let reply = client.reply();
                match reply.status {
                    200 => assert_eq!(first_of(&reply), 5.0),
                    _ => assert!(!reply.error(503).is_empty()),
                }
            }
        }
        self.load_again("killed");
        assert_eq!(first_of(&self.post("killed", row(7).as_bytes())), 7.0);
    }

    /// The processes of that model.
    fn workers_of(&self, model: &str) -> Vec<u32> {
        let variable = format!("MUSTER_MODEL={model}\0");
        let is_its = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(variable.len()).any(|it| it == variable.as_bytes())
        };
        workers(self.process.id()).into_iter().filter(is_its).collect()
    }

    pub fn hangs(&self) {
        let error = self.post("deaf", row(666).as_bytes()).error(504);
        assert!(error.contains(&format!("longer than {RUN_LIMIT} s")), "{error}");
        assert_eq!(first_of(&self.post("deaf", row(3).as_bytes())), 3.0);
        self.load_again("deaf");
    }

    /// Each run loses 1 MiB.
    pub fn leaks(&self) {
        let recycled = || {
            let page = Page::read(self.http);
            of_worker(&page, "leaks", "restarts_total", "reason=\"recycle\"")
        };
        let (before, mut client, mut runs) = (recycled(), self.client(), 0);
        wait_for("its process to be replaced", || {
            runs += 1;
            let reply = client.post(&infer("leaks"), &[], row(runs));
            assert_eq!(first_of(&reply), f64::from(runs));
            (runs % 16 == 0 && before < recycled()).then_some(())
        });
        wait_for("the old process to end", || {
            (workers(self.process.id()).len() == self.workers).then_some(())
        });
    }

    /// A run says that the GPU is lost, in CUDA's words, and so does the run that is made again in the next process.
    pub fn loses_its_gpu(&self) {
        let error = self.post("on_gpu", row(666).as_bytes()).error(500);
        assert!(error.contains("device-side assert") && error.contains("lost its GPU"), "{error}");
        assert_eq!(first_of(&self.post("on_gpu", row(2).as_bytes())), 2.0);
        self.load_again("on_gpu");
    }

    /// Has a model take memory, 1 MiB a run, until that is so. Each run is answered.
    fn take_memory(&self, what: &str, is_so: impl Fn() -> bool) {
        let (mut client, mut runs) = (self.client(), 0);
        wait_for(what, || {
            runs += 1;
            assert_eq!(
                first_of(&client.post(&infer("takes_all"), &[], row(runs))),
                f64::from(runs)
            );
            is_so().then_some(())
        });
    }

    /// Memory is nearly used up: large requests are refused, and small ones are answered.
    pub fn little_memory(&self) {
        if self.group.is_none() {
            return;
        }
        let taken = || {
            let processes = workers(self.process.id()).into_iter().chain([self.process.id()]);
            // A process may just end.
            processes.filter_map(try_anonymous).sum::<u64>()
        };
        // The server wants 32 MiB to be left, and the kernel counts a little more than it does.
        self.take_memory("memory to be used up", || MEMORY - (30 << 20) < taken());
        let large = " ".repeat(2 << 20);
        wait_for("a large request to be refused", || {
            let reply = self.post("canary", large.as_bytes());
            (reply.status == 503 && reply.text().contains("nearly used up")).then_some(())
        });
        assert_eq!(first_of(&self.post("canary", row(3).as_bytes())), 3.0);
    }

    /// Memory runs out: the kernel ends the process that takes it, whose run is made again, and not the server.
    pub fn no_memory_left(&self) {
        const ENDED: &str = "out of memory (killed by the kernel)";
        const ENOUGH: &str = "there is memory again";
        if self.group.is_none() {
            return;
        }
        let (ended, enough) = (self.lines(ENDED), self.lines(ENOUGH));
        self.take_memory("the kernel to end the process", || ended < self.lines(ENDED));
        wait_for("memory to be there again", || (enough < self.lines(ENOUGH)).then_some(()));
        assert_eq!(first_of(&self.post("canary", row(4).as_bytes())), 4.0);
        self.load_again("takes_all");
    }

    /// A process that stands still is ended with the run that is given up, and another takes its place.
    pub fn stands_still(&self) {
        let stopped = self.workers_of("still");
        stopped.iter().for_each(|it| signal(*it, Signal::STOP));
        let error = self.post("still", row(3).as_bytes()).error(504);
        assert!(error.contains(&format!("longer than {RUN_LIMIT} s")), "{error}");
        wait_for("the process to be ended", || stopped.iter().all(is_gone).then_some(()));
        assert_eq!(first_of(&self.post("still", row(4).as_bytes())), 4.0);
        self.load_again("still");
    }

    pub fn hostile_code(&self) {
        check_denied(&self.post("hostile", row(1).as_bytes()).error(500));
    }
}
