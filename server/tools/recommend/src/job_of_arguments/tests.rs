//! What a command line becomes, and what is wrong with one.

use super::*;
use clap::Parser;
use serde_json::json;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Args, String> {
    let words = std::iter::once("recommend").chain(line.split_whitespace());
    Command::try_parse_from(words).map(|it| it.args).map_err(|it| it.to_string())
}

#[test]
fn the_model_is_a_word_or_an_option() {
    for line in ["m.onnx --payload p", "--model m.onnx --payload p"] {
        let job = parse(line).unwrap().job().unwrap();
        assert_eq!(
            (job.model.as_deref(), &job.input["ModelName"]),
            (Some("m.onnx"), &json!("m.onnx"))
        );
    }
    assert!(parse("m.onnx --model n.onnx").is_err() && parse("--payload p").is_err());
    assert!(parse("--endpoint http://h --model m").is_err());
}

#[test]
fn what_a_line_asks_for_is_in_its_reply() {
    let line = "m --payload p --env A=1,2 --phases 2:2:120 --max-invocations 9 --latency-ms 20 --instance local.cpu1";
    let job = parse(line).unwrap().job().unwrap();
    let conditions = json!({"MaxInvocations": 9,
        "ModelLatencyThresholds": [{"Percentile": "P95", "ValueInMilliseconds": 20}]});
    assert_eq!(job.stopping, Some(conditions));
    let phase = json!({"InitialNumberOfUsers": 2, "SpawnRate": 2, "DurationInSeconds": 120});
    assert_eq!(job.input["TrafficPattern"]["Phases"], json!([phase]));
    assert_eq!(job.input["EndpointConfigurations"][0]["InstanceType"], "local.cpu1");
    assert_eq!(parse("m --payload p").unwrap().job().unwrap().stopping, None);
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for wrong in ["latency-ms 0", "max-invocations 0", "tolerance nan", "tolerance 1.5"] {
        let problem = parse(&format!("m --payload p --{wrong}")).unwrap_err();
        assert!(problem.contains("invalid value") && problem.contains("--"), "{problem}");
    }
    assert_eq!(parse("m --payload p --tolerance 1").unwrap().job().unwrap().tolerance, 1.0);
}

#[test]
fn repeats_are_for_advanced_jobs() {
    let job = |line: &str| parse(line).unwrap().job();
    assert_eq!(job("m --payload p --env A=1,2 --repeats 6").unwrap().repeats, 6);
    assert_eq!(job("m --payload p").unwrap().repeats, 1);
    let problem = job("m --payload p --repeats 6").unwrap_err().to_string();
    assert!(problem.starts_with("--repeats: expected an advanced job"), "{problem}");
    let problem =
        job("--endpoint http://h --stairs 1:1:1 --payload p --repeats 2").unwrap_err().to_string();
    assert!(problem.contains("a server that runs already"), "{problem}");
    assert!(parse("m --payload p --env A=1 --repeats 0").is_err());
}

#[test]
fn tensors_are_made_up_only_for_a_job_without_a_payload() {
    let file = std::env::temp_dir().join(format!("recommend-body-{}.json", std::process::id()));
    let container = json!({"PayloadConfig": {"SamplePayloadUrl": "p"}});
    let input = json!({"ModelName": "m", "ContainerConfig": container});
    let body = json!({"JobName": "j", "JobType": "Default", "RoleArn": "r", "InputConfig": input});
    fs::write(&file, body.to_string()).unwrap();
    for option in ["--shape x:2", "--value x=2", "--data zeros", "--input x:FP32:2"] {
        let line = format!("--input-json {} {option}", file.display());
        let problem = parse(&line).unwrap().job().unwrap_err().to_string();
        let name = option.split(' ').next().unwrap();
        assert!(problem.starts_with(&format!("{name}: expected a job without")), "{problem}");
    }
    fs::remove_file(&file).unwrap();
}

#[test]
fn what_a_body_of_a_job_says_cannot_be_said_again() {
    let options = [
        "--content-type text/csv",
        "--job-type default",
        "--env A=1",
        "--phases 1:1:1",
        "--stairs 1:1:1",
        "--max-invocations 1",
        "--latency-ms 1",
        "--percentile P99",
        "--flat stop",
        "--max-tests 1",
        "--parallel 2",
        "--duration 9",
        "--model m",
    ];
    for option in options {
        let problem = parse(&format!("--input-json f {option}")).unwrap_err();
        let name = option.split(' ').next().unwrap();
        assert!(problem.contains("cannot be used with") && problem.contains(name), "{problem}");
    }
    assert!(parse("--input-json f --payload p --time-scale 2 --tolerance 0.1").is_ok());
    // Machines are for a body without any.
    let file = std::env::temp_dir().join(format!("muster-body-{}.json", std::process::id()));
    let mut body = json!({"JobName": "j", "JobType": "Default", "InputConfig": {"ModelName": "m"}});
    let given = |body: &Value| {
        fs::write(&file, body.to_string()).unwrap();
        let line = format!("--input-json {} --instance local.cpu1", file.display());
        parse(&line).unwrap().job()
    };
    assert_eq!(given(&body).unwrap().configurations[0].instance_type, "local.cpu1");
    body["InputConfig"]["EndpointConfigurations"] = json!([{"InstanceType": "local.cpu2"}]);
    let problem = given(&body).unwrap_err().to_string();
    assert!(problem.starts_with("--instance: expected none with --input-json"), "{problem}");
    fs::remove_file(file).unwrap();
}

#[test]
fn a_server_that_runs_already_needs_no_processor_beside_those_of_the_load_generators() {
    let all: Vec<String> = launch::cpus().iter().map(usize::to_string).collect();
    let all = format!("--client-cpus {}", all.join(","));
    let args = parse(&format!("--endpoint http://h --payload p {all}")).unwrap();
    let places = args.places(args.job().unwrap().endpoint.as_deref()).unwrap();
    assert_eq!((places.servers, places.generators), (Vec::new(), launch::cpus()));
    let problem = parse(&format!("m --payload p {all}")).unwrap().job().unwrap_err().to_string();
    assert!(problem.starts_with("--client-cpus: expected to leave"), "{problem}");
    let problem = Places::of_generators(&[0, 1], &[1, 7]).unwrap_err().to_string();
    assert!(problem.contains("that this program may use (0,1), given 7"), "{problem}");
}

#[test]
fn a_machine_that_is_not_known_is_refused_before_there_are_jobs() {
    let control = |name: &str| {
        let args = parse(&format!("--serve 127.0.0.1:0 --instance {name}")).unwrap();
        args.control(Path::new("muster")).map(|_| ())
    };
    assert_eq!(control("local.cpu1"), Ok(()));
    let problem = control("ml.unknown").unwrap_err().to_string();
    assert!(problem.starts_with("--instance: "), "{problem}");
}
