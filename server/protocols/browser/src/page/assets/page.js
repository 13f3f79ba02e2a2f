// The page: what happens when something is chosen, typed, sent or read.

const state = {
  models: [],
  model: null,
  listed: "",
  form: null,
  request: null,
  language: "curl",
  addresses: {},
  turn: 0,
};

// ---- Appearance and token ----

const THEMES = ["auto", "light", "dark"];

function useTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("theme").textContent = `Theme: ${theme}`;
  keep(inBrowser, "muster-theme", theme);
}

find("theme").addEventListener("click", () => {
  const now = kept(inBrowser, "muster-theme") || "auto";
  useTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

function showToken(isOpen) {
  find("token-form").hidden = !isOpen;
  find("token-open").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) find("token").focus();
}

function tokenChanged() {
  find("token-open").textContent = token ? "Token: given" : "Token";
  loadModels();
  live.wake();
  showCode();
}

find("token-open").addEventListener("click", () => showToken(find("token-form").hidden));
find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(find("token").value.trim(), find("token-keep").checked);
  find("token").value = "";
  showToken(false);
  find("token-open").focus();
  tokenChanged();
});
find("token-forget").addEventListener("click", () => {
  useToken("", false);
  find("token").value = "";
  tokenChanged();
});

const NOT_REACHED = "not reached";

function showHealth(text, is) {
  const health = find("health");
  if (health.textContent !== text) health.textContent = text;
  health.dataset.is = is;
}

function problem(refused, what) {
  const status = refused.status > 0 ? `${refused.status}: ` : "";
  const help = advice(refused.status);
  return h(
    "div",
    { class: "problem" },
    h("p", {}, h("b", {}, what)),
    h("p", {}, status + refused.message),
    help ? h("p", {}, help) : null,
  );
}

// ---- Models ----

async function loadModels() {
  const list = find("models");
  let api;
  try {
    api = readJson((await send({ method: "GET", path: "/openapi.json" })).text);
  } catch (refused) {
    state.models = [];
    const isClosed = refused.status === 401 || refused.status === 403;
    list.replaceChildren(problem(refused, "The list of models cannot be read."));
    showHealth(isClosed ? "needs a token" : NOT_REACHED, "bad");
    if (isClosed) showToken(true);
    return;
  }
  const ours = api["x-muster"] ?? {};
  state.models = ours.models ?? [];
  state.addresses = api.paths ?? {};
  find("version").textContent = ours.version ?? "";
  showHealth("connected", "good");
  find("models-find").hidden = state.models.length <= 8;
  showModels();
  showAddresses();
  const scope = find("scope");
  const was = scope.value;
  const names = [...new Set(state.models.map((it) => it.name))];
  scope.replaceChildren(h("option", { value: "" }, "all models"), ...names.map((it) => h("option", { value: it }, it)));
  scope.value = names.includes(was) ? was : "";
  const wanted = new URLSearchParams(location.hash.slice(1)).get("model");
  const named = (name) => state.models.find((it) => it.name === name);
  const first = named(state.model?.name) ?? named(wanted) ?? state.models[0];
  // What was typed stays, unless the model has become another.
  if (first && JSON.stringify(first) !== state.listed) choose(first);
}

function showModels() {
  const wanted = find("filter").value.trim().toLowerCase();
  const models = state.models.filter((it) =>
    `${it.name} ${it.task ?? ""} ${it.platform}`.toLowerCase().includes(wanted),
  );
  const rows = models.slice(0, 300).map((model) => {
    const radio = h("input", {
      type: "radio",
      name: "model",
      value: model.name,
      checked: model.name === state.model?.name,
      change: () => choose(model),
    });
    return h(
      "label",
      { class: "model" },
      radio,
      h("b", {}, model.name),
      h("span", {}, [model.task ?? model.kind, model.platform].filter(Boolean).join(" · ")),
    );
  });
  if (models.length > 300) rows.push(h("p", { class: "faint" }, `… ${models.length - 300} more: search for one.`));
  const none =
    state.models.length === 0 ? "No model is ready. Load one, then read the list again." : "No model has such a name.";
  find("models").replaceChildren(...(rows.length > 0 ? rows : [h("p", { class: "faint" }, none)]));
}

// Models beyond the first hundred are listed by name; what they take is asked for when one is chosen.
async function described(model) {
  if (model.kind) return model;
  const path = `/openapi.json?model=${encodeURIComponent(model.name)}`;
  const found = readJson((await send({ method: "GET", path })).text)["x-muster"].models[0];
  return found;
}

async function choose(listed) {
  state.listed = JSON.stringify(listed);
  state.model = listed;
  const turn = ++state.turn;
  let model;
  try {
    model = await described(listed);
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    find("inputs").replaceChildren(problem(refused, "What the model takes cannot be read."));
    return;
  }
  if (turn !== state.turn) return;
  state.model = model;
  for (const radio of document.querySelectorAll("input[name=model]")) {
    radio.checked = radio.value === model.name;
  }
  const hasPipelines = Object.keys(state.addresses).some((it) => it.includes("/pipeline"));
  state.form = formOf(model, hasPipelines);
  find("request-title").textContent = `Request to ${model.name}`;
  find("about").textContent = `${model.task ?? "tensors"}, version ${model.version}, ${model.platform}`;
  find("inputs").replaceChildren(...state.form.elements);
  find("mistake").textContent = "";
  find("send").disabled = false;
  find("answer").replaceChildren();
  find("time").replaceChildren();
  find("said").textContent = "Nothing was sent yet.";
  history.replaceState(null, "", `#model=${encodeURIComponent(model.name)}`);
  showCode();
}

find("filter").addEventListener("input", showModels);
find("reload").addEventListener("click", loadModels);

// ---- The request and its answer ----

// The button keeps the focus meanwhile, so it is not disabled.
function sending(isSending) {
  state.isSending = isSending;
  find("send").setAttribute("aria-disabled", String(isSending));
}

async function submit() {
  if (!state.form || state.isSending) return;
  find("mistake").textContent = "";
  let request;
  try {
    request = await state.form.request();
  } catch (mistake) {
    if (!(mistake instanceof Mistake)) throw mistake;
    // It may stand beside the field already; now it is said aloud, and once.
    mistake.field?.closest(".field")?.querySelector(".mistake")?.replaceChildren();
    find("mistake").textContent = mistake.message;
    mistake.field?.focus();
    return;
  }
  const { model } = state;
  const turn = ++state.turn;
  sending(true);
  find("said").textContent = "Waiting for the answer.";
  try {
    const reply = await send(request);
    if (turn === state.turn) showReply(reply, model, request.given);
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused;
    if (turn === state.turn) showRefusal(refused);
  } finally {
    sending(false);
  }
}

function showReply(reply, model, given) {
  find("time").replaceChildren(...split(reply.timing));
  let data;
  try {
    data = readJson(reply.text);
  } catch {
    find("said").textContent =
      `${bytes(reply.size)} of ${reply.type || "unknown type"} in ${milliseconds(reply.timing.measured)}.`;
    find("answer").replaceChildren(h("pre", { tabindex: "0" }, reply.text.slice(0, 4000)));
    return;
  }
  const { say, elements } = shown(data, model, given);
  find("said").textContent = `${say} ${milliseconds(reply.timing.measured)}, ${bytes(reply.size)}.`;
  const whole = h(
    "details",
    { open: elements.length === 0 },
    h("summary", {}, "As JSON"),
    h("pre", { tabindex: "0", role: "region", "aria-label": "The answer as JSON" }, cut(data)),
  );
  find("answer").replaceChildren(...[elements, whole].flat(Infinity).filter((it) => it !== null));
}

function showRefusal(refused) {
  find("time").replaceChildren(...(refused.timing ? split(refused.timing) : []));
  find("said").textContent = "There is no answer.";
  const box = problem(refused, "The request failed.");
  box.setAttribute("role", "alert");
  find("answer").replaceChildren(box);
  if (refused.status === 401) showToken(true);
}

find("call").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
find("call").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    submit();
  }
});
find("call").addEventListener("input", () => {
  find("mistake").textContent = "";
  showCode();
});
document.addEventListener("paste", (event) => {
  const file = event.clipboardData?.files[0];
  if (file && state.form?.take) {
    event.preventDefault();
    state.form.take(file);
  }
});

// ---- The same call as a program ----

let saved = null;
let codeTurn = 0;

async function showCode() {
  const turn = ++codeTurn;
  let text,
    note = [];
  try {
    if (!state.form) throw new Mistake("Choose a model first.");
    const request = await state.form.request();
    text = LANGUAGES[state.language](request);
    note = noteOf(request);
  } catch (mistake) {
    if (!(mistake instanceof Mistake)) throw mistake;
    text = "";
    note = [`The call is shown here once the request is whole. ${mistake.message}`];
  }
  if (turn !== codeTurn) return;
  find("code").textContent = text;
  find("code-panel").firstChild.hidden = text === "";
  find("code-note").replaceChildren(...note);
  find("copy").disabled = text === "";
}

// What has to be there for the program: a file, a variable.
function noteOf(request) {
  const note = [];
  if (saved) URL.revokeObjectURL(saved);
  saved = null;
  const name = bodyFile(request);
  if (name && (request.file?.isMade || !request.file)) {
    const blob = request.file ? request.file.blob : new Blob([request.body]);
    saved = URL.createObjectURL(blob);
    note.push("It reads a file: ", h("a", { href: saved, download: name }, `save ${name}`), ". ");
  } else if (name) {
    note.push(`It reads ${name} in the folder where it runs. `);
  }
  if (token) note.push("It takes the token from the variable MUSTER_TOKEN.");
  return note;
}

function showLanguages() {
  const tabs = Object.keys(LANGUAGES).map((language) => {
    const isChosen = language === state.language;
    return h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${language}`,
        "aria-selected": String(isChosen),
        "aria-controls": "code-panel",
        tabindex: isChosen ? "0" : "-1",
        click: () => speak(language),
      },
      language,
    );
  });
  find("languages").replaceChildren(...tabs);
  find("code-panel").setAttribute("aria-labelledby", `tab-${state.language}`);
}

function speak(language) {
  state.language = language;
  showLanguages();
  showCode();
}

find("languages").addEventListener("keydown", (event) => {
  const names = Object.keys(LANGUAGES);
  const at = names.indexOf(state.language);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  speak(names[to % names.length]);
  find(`tab-${state.language}`).focus();
});

find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(find("code").textContent);
    find("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(find("code"));
    find("copied").textContent = "Marked: copy it with Ctrl C.";
  }
  setTimeout(() => {
    find("copied").textContent = "";
  }, 3000);
});

// ---- All addresses ----

function showAddresses() {
  // Each model has operations of its own in the document; the address with a variable word stands for them.
  const names = new Set(state.models.map((it) => it.name));
  const isOfModel = (operation) => (operation.tags ?? []).some((it) => names.has(it));
  const rows = Object.entries(state.addresses).flatMap(([path, operations]) =>
    Object.entries(operations ?? {})
      .filter(([method, it]) => /^(get|put|post|delete|patch|head)$/.test(method) && !isOfModel(it))
      .map(([method, operation]) =>
        h(
          "tr",
          {},
          h("td", {}, method.toUpperCase()),
          h("td", {}, h("code", {}, path)),
          h("td", { class: "text" }, operation.summary ?? operation.description?.split("\n")[0] ?? ""),
        ),
      ),
  );
  const head = ["Method", "Address", "What it does"].map((it) => h("th", { scope: "col" }, it));
  find("operations").replaceChildren(h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

// ---- The start ----

const live = new Live();
useTheme(kept(inBrowser, "muster-theme") || "auto");
showLanguages();
if (token) find("token-open").textContent = "Token: given";
await loadModels();
live.start();
