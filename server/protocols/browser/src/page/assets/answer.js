// How an answer is shown: by its form, which tells more than the model's task does.

const MOST_BARS = 10;

// Elements for an answer, and one sentence that says it.
function shown(data, model, given) {
  const found = Array.isArray(data?.outputs) ? tensors(data.outputs, model) : byForm(data, model, given);
  return found ?? { say: "The answer is below.", elements: [] };
}

function byForm(data, model, given) {
  // The hub's form is a list for each input, of which there is one.
  const list = Array.isArray(data) && data.length === 1 && Array.isArray(data[0]) ? data[0] : data;
  if (!Array.isArray(list)) return ofObject(list, given);
  const has = (key) => list.length > 0 && list.every((it) => it !== null && typeof it === "object" && key in it);
  if (has("box") || (list.length === 0 && model.task === "object-detection")) return boxes(list, given.picture);
  if (has("label") && has("score")) return ranked(list.map((it) => [it.label, it.score]));
  if (has("start") && has("word")) return entities(list, given.text ?? "");
  if (has("token_str")) return ranked(list.map((it) => [it.token_str, it.score]));
  if (has("index") && has("score")) return ranked(list.map((it) => [given.texts?.[it.index] ?? it.index, it.score]));
  if (has("index") && has("value"))
    return ranked(list.map((it) => [`token ${it.index}`, it.value]).sort((a, b) => b[1] - a[1]));
  if (list.length === 1) return ofObject(list[0], given) ?? numbers(data, model, given);
  return numbers(data, model, given);
}

function ofObject(it, given) {
  if (it === null || typeof it !== "object") return null;
  if (Array.isArray(it.labels) && Array.isArray(it.scores))
    return ranked(it.labels.map((label, at) => [label, it.scores[at]]));
  if (typeof it.answer === "string") {
    const { elements } = ranked([["score", it.score ?? 0]]);
    const place = it.answer && given.text ? marked(given.text, [{ ...it, name: "" }]) : null;
    return { say: `The answer: ${it.answer || "none"}.`, elements: [big(it.answer || "no answer"), elements, place] };
  }
  if (typeof it.text === "string")
    return { say: `It says: ${it.text || "nothing"}.`, elements: [big(it.text || "(nothing was said)")] };
  const label = [it.label].flat(),
    score = [it.score].flat();
  if (typeof label[0] === "string" && score.length === label.length)
    return ranked(label.map((name, at) => [name, score[at]]));
  const vectors = Object.entries(it).filter(([, value]) => Array.isArray(value));
  const drawn = vectors.map(([name, value]) => vector(name, value));
  return drawn.length > 0 ? { say: `${plural(drawn.length, "tensor")}.`, elements: drawn } : null;
}

function numbers(data, model, given) {
  const flat = Array.isArray(data) ? data.flat(Infinity) : [];
  if (flat.length === 0 || flat.some((it) => typeof it !== "number")) return null;
  if (given.texts?.length === flat.length) return ranked(given.texts.map((text, at) => [text, flat[at]]));
  return { say: `${plural(flat.length, "number")}.`, elements: [vector("embedding", data)] };
}

const big = (text) => h("p", { class: "big" }, text);

// Bars, in the order of the answer. A score is between 0 and 1; other numbers are drawn beside the largest.
function ranked(pairs) {
  const largest = pairs.reduce((most, [, it]) => Math.max(most, Math.abs(it)), 0);
  const full = largest <= 1 ? 1 : largest;
  const bars = pairs.slice(0, MOST_BARS).map(([name, score]) => {
    const bar = h("i", {});
    bar.style.width = `${(100 * Math.abs(score)) / full}%`;
    return h(
      "li",
      {},
      h("div", { class: "line" }, h("span", {}, String(name)), h("b", {}, short(score))),
      h("div", { class: "bar", "aria-hidden": "true" }, bar),
    );
  });
  const more = pairs.length - bars.length;
  const rest = more > 0 ? h("p", { class: "faint" }, `… ${more} more`) : null;
  const [name, score] = pairs[0] ?? ["nothing", 0];
  return { say: `${name}, ${short(score)}.`, elements: [h("ul", { class: "bars" }, bars), rest] };
}

const TONES = ["a", "b", "c", "d"];
const MOST_NAMED = 8;

function outline({ box }, tone) {
  const size = { width: box.xmax - box.xmin, height: box.ymax - box.ymin };
  const rect = svg("rect", { x: box.xmin, y: box.ymin, ...size });
  rect.style.stroke = `var(--${tone})`;
  return rect;
}

// The name of a box, in its upper left corner. The table says the same to a screen reader.
function nameOf({ box, label }, width, height) {
  const name = h("span", { "aria-hidden": "true" }, String(label));
  name.style.left = `${(100 * box.xmin) / width}%`;
  name.style.top = `${(100 * box.ymin) / height}%`;
  return name;
}

// Boxes over the picture that was sent, and a table of them.
function boxes(list, picture) {
  const names = [...new Set(list.map((it) => it.label))];
  const tone = (label) => TONES[names.indexOf(label) % TONES.length];
  const elements = [];
  if (picture) {
    const image = h("img", { src: picture.address, alt: `${picture.name} with ${list.length} boxes` });
    const plane = svg("svg", { "aria-hidden": "true", preserveAspectRatio: "none" });
    const frame = h("div", { class: "picture" }, image, plane);
    image.addEventListener("load", () => {
      const { naturalWidth: width, naturalHeight: height } = image;
      // Small pictures are shown larger, and high ones smaller.
      image.style.width = `${width * Math.min(Math.max(1, 360 / width), 460 / height)}px`;
      plane.setAttribute("viewBox", `0 0 ${width} ${height}`);
      plane.replaceChildren(...list.map((it) => outline(it, tone(it.label))));
      if (list.length <= MOST_NAMED) frame.append(...list.map((it) => nameOf(it, width, height)));
    });
    elements.push(frame);
  }
  const number = (it) => h("td", {}, short(it));
  const row = ({ label, score, box }) =>
    h(
      "tr",
      {},
      h("td", { class: "text" }, h("i", { class: `swatch ${tone(label)}` }), String(label)),
      [score, box.xmin, box.ymin, box.xmax, box.ymax].map(number),
    );
  const head = ["label", "score", "left", "top", "right", "bottom"];
  const table = h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((it, at) => h("th", { scope: "col", class: at ? "" : "text" }, it)),
      ),
    ),
    h("tbody", {}, list.slice(0, 50).map(row)),
  );
  if (list.length > 0)
    elements.push(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Boxes" }, table));
  return {
    say: list.length > 0 ? `${plural(list.length, "object")}: ${names.slice(0, 5).join(", ")}.` : "Nothing was found.",
    elements,
  };
}

function entities(list, text) {
  const found = list.map((it) => ({ ...it, name: it.entity_group ?? it.entity ?? "" }));
  const { elements } = ranked(found.map((it) => [`${it.word} (${it.name})`, it.score]));
  const first = found.slice(0, 5).map((it) => `${it.word}, ${it.name}`);
  const say = found.length > 0 ? `${first.join("; ")}.` : "Nothing was found.";
  return { say, elements: [marked(text, found), elements] };
}

// A text in which these places are marked. Places count characters, not UTF-16 units.
function marked(text, places) {
  const letters = [...text];
  const parts = [];
  let at = 0;
  for (const { start, end, name } of [...places].sort((a, b) => a.start - b.start)) {
    if (start < at) continue;
    parts.push(letters.slice(at, start).join(""));
    parts.push(h("mark", {}, letters.slice(start, end).join(""), name ? h("small", {}, ` ${name}`) : null));
    at = end;
  }
  return h("p", {}, parts, letters.slice(at).join(""));
}

function vector(name, value) {
  const shape = [];
  for (let it = value; Array.isArray(it); it = it[0]) shape.push(it.length);
  const values = value.flat(Infinity);
  return tensorTable(values, product(shape) === values.length ? shape : [values.length], {
    caption: name,
    datatype: "FP32",
  });
}

// The outputs of a KServe answer.
function tensors(outputs, model) {
  const said = [];
  const elements = outputs.map((output) => {
    const { name, datatype, shape } = output;
    const values = [output.data ?? []].flat(Infinity);
    const labels =
      model.outputs?.find((it) => it.name === name)?.labels ?? (outputs.length === 1 ? model.labels : null);
    const title = h("h3", {}, name, h("span", { class: "kind faint" }, ` ${datatype} ${times(shape)}`));
    if (labels && isFloat(datatype) && labels.length === shape.at(-1)) {
      const rows = values.length / labels.length;
      const each = Array.from({ length: Math.min(rows, 3) }, (_, row) => {
        const pairs = labels.map((label, at) => [label, values[row * labels.length + at]]).sort((a, b) => b[1] - a[1]);
        const bars = ranked(pairs);
        said.push(bars.say);
        return [rows > 1 ? h("p", { class: "faint" }, `Row ${row + 1}`) : null, bars.elements];
      });
      return h(
        "div",
        { class: "output" },
        title,
        each,
        rows > 3 ? h("p", { class: "faint" }, `… ${plural(rows - 3, "more row")}`) : null,
      );
    }
    said.push(`${name} ${values.length === 1 ? short(values[0]) : times(shape)}`);
    const inside =
      values.length === 1 ? big(short(values[0])) : tensorTable(values, shape, { caption: "values", datatype });
    return h("div", { class: "output" }, title, inside);
  });
  return { say: `${said.slice(0, 4).join("; ").replace(/\.$/, "")}.`, elements };
}

// A value of JSON as text, with long arrays and long texts cut.
function cut(value) {
  const keep = (it) => {
    if (typeof it === "string" && it.length > 300) return `${it.slice(0, 300)}… (${it.length} characters)`;
    if (Array.isArray(it))
      return it.length > 24 ? [...it.slice(0, 16).map(keep), `… ${it.length - 16} more`] : it.map(keep);
    if (it === null || typeof it !== "object") return it;
    return Object.fromEntries(Object.entries(it).map(([name, inner]) => [name, keep(inner)]));
  };
  const text = JSON.stringify(keep(value), null, 2);
  // Rows of numbers stand in one line.
  return text.replace(/\[\s+(-?[\d"][^[\]{}]*?)\s+\]/g, (_, inside) => `[${inside.replace(/,\s+/g, ", ")}]`);
}

// Where the time of a request went, as a bar and a list.
function split({ measured, queue, run, total, rest }) {
  const known = queue !== null && run !== null;
  const parts = [
    ["Queue", queue, "a"],
    ["Run", run, "b"],
    ["Rest", known ? rest : null, "c"],
  ];
  const bar = h("div", { class: "split", "aria-hidden": "true" });
  for (const [, value, tone] of known ? parts : [["", measured, "c"]]) {
    const piece = h("i", { class: tone });
    piece.style.flex = `${Math.max(value, 0.001)} 0 0`;
    bar.append(piece);
  }
  const key = parts.map(([name, value, tone]) =>
    h(
      "li",
      {},
      h("i", { class: tone, "aria-hidden": "true" }),
      `${name} `,
      h("b", {}, value === null ? "n/a" : milliseconds(value)),
    ),
  );
  key.push(h("li", {}, "All ", h("b", {}, milliseconds(measured))));
  return [
    bar,
    h("ul", { class: "key" }, key),
    h("p", { class: "faint" }, aboutRest({ measured, queue, run, total, rest })),
  ];
}

// Whose the rest of the time is, as far as the server has said it.
function aboutRest({ measured, queue, run, total, rest }) {
  if (total === null) return "The server did not say how long it took.";
  const outside = `the network and the browser ${milliseconds(Math.max(0, measured - total))}`;
  // Where nothing ran, the server says how long it took in all.
  if (queue === null || run === null) return `The server took ${milliseconds(total)}, ${outside}.`;
  const inside = Math.min(rest, Math.max(0, total - queue - run));
  return `Of the rest, the server took ${milliseconds(inside)} before and after the run, ${outside}.`;
}
