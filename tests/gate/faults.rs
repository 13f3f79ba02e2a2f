//! Faults that take more than one request.

use std::fs;

use super::server::Gate;
use crate::{
    isolation::{kill, workers},
    support::{Client, ask, first_of, infer, row, wait_for},
};

impl Gate {
    pub fn slow_clients(&self) {
        let mut clients: Vec<Client> = (0..50).map(|_| self.client()).collect();
        for client in &mut clients {
            client.send("POST /v2/models/canary/infer HTTP/1.1\r\nhost:").unwrap();
        }
        for client in &mut clients {
            // Told so, or cut off.
            if let Ok(Some(reply)) = client.try_reply() {
                assert_eq!(reply.status, 408);
            }
        }
    }

    pub fn bomb(&self) {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![b' '; 64 << 20]).unwrap();
        let bomb = encoder.finish().unwrap();
        let headers = [("content-encoding", "gzip")];
        let reply = self.client().post(&infer("canary"), &headers, bomb);
        assert_eq!(reply.status, 413, "{}", reply.text());
    }

    pub fn clients_that_leave(&self, model: &str, count: usize) {
        drop((0..count).map(|_| ask(self.http, model, row(1))).collect::<Vec<_>>());
        assert_eq!(first_of(&self.post(model, row(9).as_bytes())), 9.0);
    }

    #[track_caller]
    pub fn load_fails(&self, model: &str, part: &str) {
        let path = format!("/v2/repository/models/{model}/load");
        let reply = self.client().post(&path, &[], "");
        assert!(400 <= reply.status && reply.text().contains(part), "{}", reply.text());
    }

    /// Loads a model anew: its deaths of late are forgotten.
    #[track_caller]
    pub fn load_again(&self, model: &str) {
        let at = |verb: &str| format!("/v2/repository/models/{model}/{verb}");
        self.client().post(&at("unload"), &[], "").expect(200);
        wait_for("it to be gone", || {
            let status = self.client().post(&infer(model), &[], row(1)).status;
            (status != 200).then_some(())
        });
        self.client().post(&at("load"), &[], "").expect(200);
    }

    /// One request kills its process twice; one process is killed from outside, again and again.
    pub fn crashes(&self) {
        let error = self.post("killed", row(666).as_bytes()).error(500);
        assert!(error.contains("SIGABRT"), "{error}");
        for _ in 0..3 {
            let mut clients: Vec<Client> =
                (0..4).map(|_| ask(self.http, "killed", row(5))).collect();
            self.kill_worker_of("killed");
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

    pub fn kill_worker_of(&self, model: &str) {
        let variable = format!("MUSTER_MODEL={model}\0");
        let is_its = |pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(variable.len()).any(|it| it == variable.as_bytes())
        };
        workers(self.process.id()).into_iter().filter(is_its).for_each(kill);
    }

    pub fn hangs(&self) {
        let error = self.post("deaf", row(666).as_bytes()).error(504);
        assert!(error.contains("longer than 1 s"), "{error}");
        assert_eq!(first_of(&self.post("deaf", row(3).as_bytes())), 3.0);
        self.load_again("deaf");
    }

    pub fn poisoned_batch(&self) {
        let mut first = ask(self.http, "poisoned", row(1));
        let numbers = [2, 3, 666, 4, 5];
        let mut clients: Vec<Client> =
            numbers.iter().map(|it| ask(self.http, "poisoned", row(*it))).collect();
        assert_eq!(first_of(&first.reply()), 1.0);
        for (number, client) in numbers.iter().zip(&mut clients) {
            let reply = client.reply();
            match number {
                666 => drop(reply.error(500)),
                _ => assert_eq!(first_of(&reply), f64::from(*number)),
            }
        }
    }

    /// Other files, so that each load is one.
    pub fn reloads(&self) {
        let path = self.repository.path().join("canary/config.pbtxt");
        let config = fs::read_to_string(&path).unwrap();
        for delay in ["0.01", "0.02"] {
            let parameter = format!(
                "{config} parameters {{ key: \"execute_delay_ms\" value {{ string_value: \"{delay}\" }} }}"
            );
            fs::write(&path, parameter).unwrap();
            self.client().post("/v2/repository/models/canary/load", &[], "").expect(200);
        }
        fs::write(&path, config).unwrap();
        self.client().post("/v2/repository/models/canary/load", &[], "").expect(200);
    }

    pub fn unloads_in_a_run(&self) {
        let mut running: Vec<Client> = (0..3).map(|_| ask(self.http, "slow", row(4))).collect();
        self.load_again("slow");
        for client in &mut running {
            let reply = client.reply();
            assert!([200, 404, 503].contains(&reply.status), "{}", reply.text());
        }
    }

    /// More than a model can answer in time, ten times over.
    pub fn too_many(&self) {
        let mut clients: Vec<Client> = (0..200).map(|_| ask(self.http, "slow", row(2))).collect();
        for client in &mut clients {
            let reply = client.reply();
            match reply.status {
                200 => assert_eq!(first_of(&reply), 2.0),
                _ => assert!(!reply.error(503).is_empty() && reply.header("retry-after").is_some()),
            }
        }
    }

    pub fn other_protocols(&self) {
        for address in [self.http, self.grpc] {
            for bytes in [
                &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
                b"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
            ] {
                let mut client = Client::connect(address);
                // An answer or none, an error or none: it ends.
                let _ = client.send(bytes);
                client.finish_sending();
                let _ = client.try_reply();
            }
        }
    }
}
