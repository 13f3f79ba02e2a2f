// Values of tensors as they are typed or pasted: rows of CSV, or arrays of JSON. They stay texts, so that no digit is
// lost on the way.

const isFloat = (datatype) => /^(FP|BF)/.test(datatype);
const product = (dimensions) => dimensions.reduce((all, it) => all * it, 1);
const times = (shape) => shape.map((it) => (it === -1 ? "any" : it)).join(" × ");

// The lines of values in a text: `[["1", "2"], ["3", "4"]]`.
function readLines(text, { datatype }) {
  if (datatype === "BYTES") return readTexts(text);
  const lines = [];
  const isJson = text.includes("[");
  let skipped = false;
  for (const [at, raw] of text.replace(/[[\]]/g, " ").split("\n").entries()) {
    // A comma at the end of a line of JSON parts it from the next; in CSV an empty value stands beside it.
    const line = isJson ? raw.trim().replace(/^,|,$/g, "").trim() : raw.trim();
    if (line === "") continue;
    const cells = line.split(/[,;\t]/.test(line) ? /\s*[,;\t]\s*/ : /\s+/).flatMap((it) => it.split(/\s+/));
    const isNames = lines.length === 0 && !skipped && cells.every((it) => it !== "" && value(it, datatype) === null);
    if (isNames && text.trim().includes("\n")) {
      skipped = true;
      continue;
    }
    lines.push(
      cells.map((cell, place) => {
        const found = value(cell, datatype);
        if (found !== null) return found;
        const what = isFloat(datatype) ? "a number" : datatype === "BOOL" ? "true or false" : "a whole number";
        throw new Mistake(`Line ${at + 1}, value ${place + 1}: “${cell.slice(0, 40)}” is not ${what}.`);
      }),
    );
  }
  return lines;
}

// Texts: an array of JSON, or one text in each line.
function readTexts(text) {
  if (/^\s*\[/.test(text)) {
    try {
      const all = JSON.parse(text).flat(Infinity);
      return all.map((it) => [JSON.stringify(String(it))]);
    } catch {
      // It is a text that begins with a bracket.
    }
  }
  return text
    .split("\n")
    .filter((it) => it !== "")
    .map((it) => [JSON.stringify(it)]);
}

// A value as JSON writes it; null where the text is none of that type. An empty cell among floats is NaN.
function value(text, datatype) {
  if (datatype === "BOOL") return { true: "true", false: "false", 1: "true", 0: "false" }[text.toLowerCase()] ?? null;
  if (!isFloat(datatype)) return /^[+-]?\d+$/.test(text) ? text.replace(/^\+?(-?)0*(?=\d)/, "$1") : null;
  if (text === "" || /^[+-]?nan$/i.test(text)) return "NaN";
  if (/^\+?inf(inity)?$/i.test(text)) return "Infinity";
  if (/^-inf(inity)?$/i.test(text)) return "-Infinity";
  if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return text;
  return /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? String(Number(text)) : null;
}

// The shape of so many values. Open dimensions are found from the values: the lines are the first one, and the innermost
// takes what is left.
function shapeOf(lines, { name, shape }) {
  const count = lines.reduce((all, it) => all + it.length, 0);
  const open = shape.flatMap((it, at) => (it === -1 ? [at] : []));
  const fixed = product(shape.filter((it) => it !== -1));
  const whole = [...shape];
  if (open.length === 0) {
    if (count !== fixed) throw new Mistake(`${name} takes ${plural(fixed, "value")}; there are ${count}.`);
    return whole;
  }
  if (count === 0 || count % fixed !== 0) {
    const each = open[0] === 0 ? "each row" : name;
    throw new Mistake(`${each} takes ${plural(fixed, "value")}; there are ${count} in all.`);
  }
  for (const at of open) whole[at] = 1;
  let left = count / fixed;
  if (open.length > 1 && open[0] === 0 && left % lines.length === 0) {
    whole[0] = lines.length;
    left /= lines.length;
  }
  whole[open.at(-1)] *= left;
  return whole;
}

// An input of KServe's request, as text.
function inputJson({ name, datatype }, shape, lines) {
  const data = lines.map((it) => it.join(", "));
  const inside = data.length > 1 ? `\n    ${data.join(",\n    ")}` : data[0];
  return `{"name": ${JSON.stringify(name)}, "datatype": "${datatype}", "shape": [${shape.join(", ")}], "data": [${inside}]}`;
}

// The values of an example as a text to edit: a line for each innermost row.
function typed(data, shape, datatype) {
  const flat = [data].flat(Infinity);
  if (datatype === "BYTES") return flat.join("\n");
  const width = shape.at(-1) > 0 ? shape.at(-1) : flat.length;
  const lines = [];
  for (let at = 0; at < flat.length; at += width) lines.push(flat.slice(at, at + width).join(", "));
  return lines.join("\n");
}

const MOST_ROWS = 8;
const MOST_COLUMNS = 12;

// A tensor as a table of its last two dimensions, shortened. `names` are those of the columns.
function tensorTable(values, shape, { names, caption, datatype }) {
  const columns = shape.length === 0 ? 1 : shape.at(-1);
  const rows = columns === 0 ? 0 : values.length / columns;
  const numbers = datatype !== "BYTES" && values.map(Number);
  const isField = numbers && shape.length >= 2 && columns >= 4 && shape.at(-2) >= 4;
  const most = isField ? Math.min(shape.at(-2), 32) : MOST_ROWS;
  const wide = isField ? Math.min(columns, 32) : names ? 40 : MOST_COLUMNS;
  const finite = isField ? numbers.filter(Number.isFinite) : [];
  const low = finite.reduce((all, it) => Math.min(all, it), Infinity);
  const high = finite.reduce((all, it) => Math.max(all, it), -Infinity);
  const head =
    names &&
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        names.slice(0, wide).map((it) => h("th", { scope: "col" }, it)),
        columns > wide ? h("td", {}, "…") : null,
      ),
    );
  const body = h("tbody", {});
  for (let row = 0; row < Math.min(rows, most); row++) {
    const line = h("tr", {});
    for (let column = 0; column < Math.min(columns, wide); column++) {
      const at = row * columns + column;
      const cell = h(
        "td",
        {},
        datatype === "BYTES" || typeof values[at] === "string" ? String(values[at]) : short(values[at]),
      );
      if (isField && high > low && Number.isFinite(numbers[at])) {
        cell.className = "cell";
        cell.append(h("i"));
        cell.lastChild.style.opacity = (0.5 * (numbers[at] - low)) / (high - low);
      }
      line.append(cell);
    }
    if (columns > wide) line.append(h("td", { class: "missing" }, `… ${columns - wide} more`));
    body.append(line);
  }
  if (rows > most)
    body.append(
      h(
        "tr",
        {},
        h("td", { class: "missing text", colspan: Math.min(columns, wide) }, `… ${plural(rows - most, "more row")}`),
      ),
    );
  const label = `${caption}, ${times(shape)}`;
  const table = h("table", { class: "matrix" }, h("caption", {}, label), head, body);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
}
