//! Files that say more of themselves than they hold, or unfold, as bodies of requests to folders: each is refused with
//! what is wrong with it, by either decoder of JPEG, and whoever asks next is answered. What a refusal may hold is
//! measured where the decoders are.

use serde_json::{Value, json};

use crate::{
    image_pipelines::ask_of_file,
    support::{
        Client, Server,
        pipelines::{fixtures, repository},
        root,
    },
};

#[path = "../../backends/image/tests/bombs/mod.rs"]
mod images;
#[path = "../../backends/audio/tests/bombs/mod.rs"]
mod sounds;

/// Where the files lie that bombs are made of.
const IMAGES: &str = "backends/image/tests/golden/files";
const SOUNDS: &str = "tests/fixtures/pipelines/sounds";

/// A folder, the input that it takes, and the type of its files.
struct Asked {
    model: &'static str,
    input: &'static str,
    content_type: &'static str,
}

const IMAGE: Asked = Asked { model: "vit", input: "image", content_type: "application/x-image" };
const SOUND: Asked = Asked { model: "speech", input: "audio", content_type: "application/x-audio" };

impl Asked {
    fn invoke(&self, server: &Server, file: &[u8]) -> crate::support::Reply {
        let headers =
            [("content-type", self.content_type), ("x-amzn-sagemaker-target-model", self.model)];
        Client::connect(server.sagemaker()).post("/invocations", &headers, file)
    }

    /// The file is refused on each way to the folder, in these words, and a good one is answered behind it.
    #[track_caller]
    fn check(
        &self,
        server: &Server,
        (name, file): (&str, &[u8]),
        said: &str,
        good: &(Vec<u8>, Value),
    ) {
        let mut client = server.client();
        let pipeline = format!("/v2/models/{}/pipeline", self.model);
        let headers = [("content-type", self.content_type)];
        for reply in [
            self.invoke(server, file),
            client.post(&pipeline, &headers, file),
            ask_of_file(&mut client, self.model, (self.input, file), &json!({})),
        ] {
            let problem = reply.error(400);
            assert!(problem.contains(said), "{name}: {problem}");
        }
        assert_eq!(self.invoke(server, &good.0).expect(200).json(), good.1, "behind {name}");
    }

    /// A good file, and its answer.
    fn good(&self, server: &Server, path: &str) -> (Vec<u8>, Value) {
        let file = std::fs::read(fixtures().join(path)).unwrap();
        let answer = self.invoke(server, &file).expect(200).json();
        (file, answer)
    }
}

#[test]
fn bombs_are_refused_before_they_unfold() {
    let repository = repository(&["vit", "speech"]);
    for flags in [&[][..], &["--jpeg-library=none"]] {
        let server = Server::start(&repository, flags);
        let good = IMAGE.good(&server, "pictures/64x64.png");
        for images::Bomb { name, bytes, refused } in images::bombs(&root(IMAGES)) {
            IMAGE.check(&server, (name, &bytes), refused, &good);
        }
        let good = SOUND.good(&server, "speech/0.wav");
        for sounds::Bomb { name, bytes, refused } in sounds::bombs(&root(SOUNDS)) {
            SOUND.check(&server, (name, &bytes), refused, &good);
        }
    }
}
