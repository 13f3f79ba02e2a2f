//! Faults of models and of what is asked of them: loads, mixed batches, and more requests than can be answered.

use std::{collections::BTreeSet, fs};

use super::server::Gate;
use crate::support::{Client, Reply, ask, first_of, infer, row, wait_for};

impl Gate {
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
            [404, 503].contains(&status).then_some(())
        });
        self.client().post(&at("load"), &[], "").expect(200);
    }

    /// A copy of that model's configuration with one parameter more.
    pub fn config_with(&self, model: &str, key: &str, value: &str) -> String {
        let path = self.repository.path().join(model).join("config.pbtxt");
        let config = fs::read_to_string(path).unwrap();
        format!("{config} parameters {{ key: \"{key}\" value {{ string_value: \"{value}\" }} }}")
    }

    /// Found out at its load: its answer to a row depends on the rows beside it.
    pub fn rows_that_mix(&self) {
        self.load_again("less_mean");
        let config = self.client().get("/v2/models/less_mean/config").expect(200).json();
        let merging = &config["parameters"]["muster_merging"]["string_value"];
        assert!(merging.as_str().is_some_and(|it| it.starts_with("off: ")), "{config}");
        let bodies = (1..9).map(|it| row(it).replace("INPUT0", "INPUT"));
        let mut clients: Vec<Client> = bodies.map(|it| ask(self.http, "less_mean", it)).collect();
        // A row less the mean of itself.
        clients.iter_mut().for_each(|it| assert_eq!(first_of(&it.reply()), 0.0));
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

    pub fn unequal_shapes(&self) {
        let body = |width: usize| {
            let data = vec![width; width];
            format!(
                r#"{{"inputs":[{{"name":"INPUT0","shape":[1,{width}],"datatype":"FP32","data":{data:?}}}]}}"#
            )
        };
        let mut clients: Vec<Client> =
            (1..20).map(|it| ask(self.http, "any", body(1 + it % 5))).collect();
        for (number, client) in (1..20).zip(&mut clients) {
            let (reply, width) = (client.reply(), 1 + number % 5);
            assert_eq!(first_of(&reply), width as f64);
            assert_eq!(reply.json()["outputs"][0]["data"].as_array().unwrap().len(), width);
        }
    }

    /// Other files, so that each load is one.
    pub fn reloads(&self) {
        let path = self.repository.path().join("canary/config.pbtxt");
        let config = fs::read_to_string(&path).unwrap();
        for delay in ["0.01", "0.02"] {
            let changed = self.config_with("canary", "execute_delay_ms", delay);
            fs::write(&path, changed).unwrap();
            self.client().post("/v2/repository/models/canary/load", &[], "").expect(200);
            fs::write(&path, &config).unwrap();
        }
        self.client().post("/v2/repository/models/canary/load", &[], "").expect(200);
    }

    /// A version that is written bit by bit while its model is loaded, again and again: the one that serves goes on,
    /// and the new one serves once it is whole.
    pub fn uploads(&self) {
        const WHOLE: &str = "model.onnx";
        let folder = self.repository.path().join("uploaded");
        let (first, second) = (folder.join("1").join(WHOLE), folder.join("2"));
        let load = "/v2/repository/models/uploaded/load";
        let bytes = fs::read(first).unwrap();
        let answers = |version: u32| {
            let path = format!("/v2/models/uploaded/versions/{version}/infer");
            // A row less the mean of itself.
            let reply = self.client().post(&path, &[], row(1).replace("INPUT0", "INPUT"));
            reply.status == 200 && first_of(&reply) == 0.0
        };
        fs::create_dir(&second).unwrap();
        // As programs name what they still write, and under its own name.
        for (name, quarter) in [("model.onnx.part", 2), (WHOLE, 1), (WHOLE, 2), (WHOLE, 3)] {
            fs::write(second.join(name), &bytes[..bytes.len() * quarter / 4]).unwrap();
            self.load_fails("uploaded", name);
            assert!(answers(1) && !answers(2));
            fs::remove_file(second.join(name)).unwrap();
        }
        fs::write(second.join(WHOLE), &bytes).unwrap();
        self.client().post(load, &[], "").expect(200);
        assert!(answers(2));
        fs::remove_dir_all(second).unwrap();
        self.client().post(load, &[], "").expect(200);
        assert!(answers(1));
    }

    pub fn unloads_in_a_run(&self) {
        let mut running: Vec<Client> = (0..3).map(|_| ask(self.http, "slow", row(4))).collect();
        self.load_again("slow");
        for client in &mut running {
            let reply = client.reply();
            assert!([200, 404, 503].contains(&reply.status), "{}", reply.text());
        }
    }

    /// An answer of `slow`, or a refusal that says when to come back: that time.
    #[track_caller]
    fn refusal(reply: &Reply) -> Option<String> {
        if reply.status == 200 {
            assert_eq!(first_of(reply), 2.0);
            return None;
        }
        assert!(!reply.error(503).is_empty());
        Some(reply.header("retry-after").expect("a time to come back").to_owned())
    }

    /// So many clients that ask `slow`, which has run, so that the server knows how long that takes.
    fn ask_slow(&self, count: usize) -> Vec<Client> {
        assert_eq!(first_of(&self.post("slow", row(2).as_bytes())), 2.0);
        (0..count).map(|_| ask(self.http, "slow", row(2))).collect()
    }

    /// More than a model can answer in time, ten times over.
    pub fn too_many(&self) {
        let mut clients = self.ask_slow(200);
        clients.iter_mut().for_each(|it| drop(Gate::refusal(&it.reply())));
    }

    /// Those that are refused come again at once, and are told different times.
    pub fn come_again_at_once(&self) {
        let (mut clients, mut times) = (self.ask_slow(60), BTreeSet::new());
        for _ in 0..3 {
            let told = clients.iter_mut().filter_map(|it| Gate::refusal(&it.reply()));
            let told: Vec<String> = told.collect();
            clients = told.iter().map(|_| ask(self.http, "slow", row(2))).collect();
            times.extend(told);
        }
        clients.iter_mut().for_each(|it| drop(Gate::refusal(&it.reply())));
        assert!(1 < times.len(), "{times:?}");
        wait_for("the model to answer again", || {
            Gate::refusal(&self.post("slow", row(2).as_bytes())).is_none().then_some(())
        });
    }

    /// One model has more requests than it can answer; the others answer.
    pub fn one_is_asked_more(&self) {
        let mut clients = self.ask_slow(100);
        for number in 0..50 {
            let reply = self.post("other", row(number).as_bytes());
            assert_eq!(first_of(&reply), f64::from(number));
        }
        clients.iter_mut().for_each(|it| drop(Gate::refusal(&it.reply())));
    }

    /// Health is answered while every processor computes.
    pub fn busy_processors(&self) {
        let mut clients: Vec<Client> = (0..8).map(|_| ask(self.http, "burns", row(2))).collect();
        for _ in 0..50 {
            self.client().get("/v2/health/live").expect(200);
            self.client().get("/v2/health/ready").expect(200);
        }
        for client in &mut clients {
            let reply = client.reply();
            assert!([200, 503, 504].contains(&reply.status), "{}", reply.text());
        }
    }
}
