// The form of a model, and the request that it makes: `{ method, path, headers, type, body, file, given }`.

// Addresses of a model. Where the server was built without those of pipelines, `/invocations` does the same.
function addressOf(model, hasPipelines) {
  const base = `/v2/models/${encodeURIComponent(model.name)}`;
  if (model.kind === "tensors") return { path: `${base}/infer`, headers: {} };
  if (hasPipelines) return { path: `${base}/pipeline/${model.task}`, headers: {} };
  return { path: "/invocations", headers: { "X-Amzn-SageMaker-Target-Model": model.name } };
}

// The form of this model: its elements, what it does with a picture that is pasted, and `request`.
function formOf(model, hasPipelines) {
  const made = model.kind === "tensors" ? tensorForm(model) : pipelineForm(model);
  const target = addressOf(model, hasPipelines);
  const request = async () => ({ method: "POST", ...target, file: null, given: {}, ...(await made.request()) });
  return { elements: made.fields.map((it) => it.element), take: made.fields.find((it) => it.take)?.take, request };
}

const jsonBody = (value) => ({ type: "application/json", body: JSON.stringify(value) });

function tensorForm(model) {
  const examples = exampleInputs(model);
  const fields = model.inputs.map((input) => {
    const data = examples.get(input.name);
    const isEmpty = [data].flat(Infinity).every((it) => it === undefined || it === "");
    const value = input.optional && isEmpty ? "" : isEmpty ? madeUp(input) : typed(data, input.shape, input.datatype);
    return tensorField(input, { value, names: input.features ?? model.features, clear: true });
  });
  const request = () => {
    const given = fields.map((field) => field.read()).filter((it) => it !== null);
    const inputs = given.map(({ input, shape, lines }) => inputJson(input, shape, lines));
    return { type: "application/json", body: `{"inputs": [\n  ${inputs.join(",\n  ")}]}` };
  };
  return { fields, request };
}

function exampleInputs(model) {
  let body = model.example?.body;
  try {
    if (typeof body === "string") body = JSON.parse(body);
  } catch {
    body = null;
  }
  const inputs = Array.isArray(body?.inputs) ? body.inputs : [];
  return new Map(inputs.filter((it) => it?.data !== undefined).map((it) => [it.name, it.data]));
}

// Values for a row of an input of which no example is known.
function madeUp({ shape, datatype }) {
  const whole = shape.map((it) => (it === -1 ? 1 : it));
  const count = product(whole);
  if (count > 20000) return "";
  const one = datatype === "BYTES" ? "text" : datatype === "BOOL" ? "false" : "0";
  return typed(Array(count).fill(one), whole, datatype);
}

const PRAISE = "I am super happy right now.";

// What the page asks for each task, and what `inputs` and `parameters` become of it.
function pipelineForm(model) {
  if (model.kind === "image") return pictureForm(model);
  if (model.kind === "audio") return fileForm([soundField()]);
  const example = exampleText(model);
  const one = (name, make) => {
    const field = textField(name, { value: example ?? PRAISE });
    return { fields: [field], request: () => ({ ...jsonBody(make(field.read())), given: { text: field.read() } }) };
  };
  switch (model.task) {
    case "question-answering": {
      const question = textField("Question", { value: "Where does the river end?", rows: 1 });
      const context = textField("Context", { value: "The river begins in the hills and ends in the sea." });
      const request = () => {
        const inputs = { question: question.read(), context: context.read() };
        return { ...jsonBody({ inputs }), given: { text: inputs.context } };
      };
      return { fields: [question, context], request };
    }
    case "rerank": {
      const query = textField("Query", { value: "What is a panda?", rows: 1 });
      const texts = listField("Texts", { value: ["A panda is a bear.", "Paris is a city."] });
      const request = () => {
        const inputs = { query: query.read(), texts: texts.read() };
        return { ...jsonBody({ inputs }), given: { texts: inputs.texts } };
      };
      return { fields: [query, texts], request };
    }
    case "sentence-similarity": {
      const source = textField("Text", { value: "That is a happy person.", rows: 1 });
      const sentences = listField("Compared with", { value: ["That is a happy dog.", "Today is a sunny day."] });
      const request = () => {
        const inputs = { source_sentence: source.read(), sentences: sentences.read() };
        return { ...jsonBody({ inputs }), given: { texts: inputs.sentences } };
      };
      return { fields: [source, sentences], request };
    }
    case "zero-shot-classification": {
      const text = textField("Text", { value: example ?? "The new phone has a very good camera." });
      const labels = listField("Labels", { value: ["technology", "cooking", "politics"] });
      const request = () => jsonBody({ inputs: text.read(), parameters: { candidate_labels: labels.read() } });
      return { fields: [text, labels], request };
    }
    case "fill-mask":
      return one("Text with the mask token", (inputs) => ({ inputs }));
    default:
      return one("Text", (inputs) => ({ inputs }));
  }
}

// The text of the example, where it is a single one.
function exampleText(model) {
  let body = model.example?.body;
  try {
    if (typeof body === "string") body = JSON.parse(body);
  } catch {
    return body;
  }
  const tensor = Array.isArray(body?.inputs) ? (body.inputs[0]?.data ?? body.inputs) : null;
  const found = tensor ? [tensor].flat(Infinity)[0] : (body?.inputs ?? body?.text ?? body?.input);
  return typeof found === "string" ? found : null;
}

function pictureForm(model) {
  const picture = pictureField();
  if (model.task === "zero-shot-image-classification") {
    const labels = listField("Labels", { value: ["a cat", "a dog", "a house"] });
    const request = async () => {
      const file = picture.read();
      const inputs = await base64(file.blob);
      return { ...jsonBody({ inputs, parameters: { candidate_labels: labels.read() } }), given: { picture: file } };
    };
    return { fields: [picture, labels], request };
  }
  return fileForm([picture]);
}

// The file is the body.
function fileForm([field]) {
  const request = () => {
    const file = field.read();
    const type = file.blob.type || "application/octet-stream";
    return { type, body: file.blob, file, given: { picture: file } };
  };
  return { fields: [field], request };
}

async function base64(blob) {
  const data = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
