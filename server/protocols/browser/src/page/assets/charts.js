// Charts over time, as SVG. Lines differ in colour and in dashes, and the numbers stand beside their names.

const HEIGHT = 150;
const MARGIN = { left: 44, right: 8, top: 10, bottom: 20 };
const DASHES = ["first", "second", "third"];

// The end of an axis that holds this value: 1, 2 or 5 with zeros.
function axisEnd(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((it) => it * unit).find((it) => it >= value * 0.999);
}

// A chart; `point` is called with a share of the width where a pointer is, and with null where it has left.
function chartOf(chart, point) {
  const plane = svg("svg", { class: "plane", role: "img" });
  const key = h("ul", { class: "key" });
  const aside = h("span", { class: "faint" }, chart.unit);
  const element = h(
    "div",
    { class: "card chart" },
    h("h3", {}, chart.name, aside),
    h("div", { class: "plot" }, plane),
    key,
  );
  plane.addEventListener("pointermove", (event) => {
    const { left, width } = plane.getBoundingClientRect();
    point((event.clientX - left - MARGIN.left) / (width - MARGIN.left - MARGIN.right));
  });
  plane.addEventListener("pointerleave", () => point(null));
  return {
    element,
    draw: (points, model, pointed) => draw({ chart, plane, key }, points, linesOf(chart, model), pointed),
  };
}

function draw({ chart, plane, key }, points, lines, pointed) {
  const width = Math.max(200, plane.clientWidth);
  const end = points.at(-1)?.at ?? 0;
  const largest = points.reduce((most, { values }) => Math.max(most, ...lines.map(([name]) => values[name] ?? 0)), 0);
  const top = axisEnd(Math.max(largest, chart.least ?? 0));
  const x = (at) => width - MARGIN.right - ((end - at) / KEPT_FOR) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    parts.push(svg("path", { class: "grid", d: `M${MARGIN.left} ${y(share * top)}H${width - MARGIN.right}` }));
    parts.push(svg("text", { x: MARGIN.left - 6, y: y(share * top) + 4, "text-anchor": "end" }, short(share * top)));
  }
  for (const [minutes, name] of [
    [3, "−3 min"],
    [2, "−2"],
    [1, "−1"],
    [0, "now"],
  ]) {
    const place = { 3: "start", 0: "end" }[minutes] ?? "middle";
    parts.push(svg("text", { x: x(end - minutes * 60_000), y: HEIGHT - 5, "text-anchor": place }, name));
  }
  lines.forEach(([name], at) => {
    const d = path(points, name, x, y);
    if (d) parts.push(svg("g", { class: `${TONES[at]} ${DASHES[at]}` }, svg("path", { d })));
  });
  const seen = pointed === null ? points.at(-1) : nearest(points, end - (1 - pointed) * KEPT_FOR);
  if (pointed !== null && seen)
    parts.push(svg("path", { class: "cross", d: `M${x(seen.at)} ${MARGIN.top}V${HEIGHT - MARGIN.bottom}` }));
  plane.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  plane.replaceChildren(...parts);
  const said = lines.map(([name, label]) => `${label} ${number(seen?.values[name])}`);
  plane.setAttribute(
    "aria-label",
    `${chart.name}, ${chart.unit}: ${said.join(", ")}; at most ${short(round(largest))} in 3 minutes`,
  );
  key.replaceChildren(
    ...lines.map(([name, label], at) =>
      h(
        "li",
        {},
        svg(
          "svg",
          { class: `${TONES[at]} ${DASHES[at]}`, viewBox: "0 0 22 10", "aria-hidden": "true" },
          svg("path", { d: "M1 5H21" }),
        ),
        `${label} `,
        h("b", {}, number(seen?.values[name])),
      ),
    ),
    pointed !== null && seen ? h("li", { class: "faint" }, `${Math.round((end - seen.at) / 1000)} s ago`) : "",
  );
}

// Three digits are what one reads of a measured number.
const round = (value) => Number(value.toPrecision(3));
const number = (value) => (value == null ? "–" : short(round(value)));

function nearest(points, at) {
  return points.reduce((best, it) => (best && Math.abs(best.at - at) <= Math.abs(it.at - at) ? best : it), null);
}

// A line with gaps where there is no value. A value by itself is a dot.
function path(points, name, x, y) {
  let d = "",
    last = null;
  for (const [at, point] of points.entries()) {
    const value = point.values[name];
    const isKnown = value != null && Number.isFinite(value);
    if (isKnown) {
      const place = `${x(point.at).toFixed(1)} ${y(value).toFixed(1)}`;
      const next = points[at + 1]?.values[name];
      d += last === null ? `M${place}${next == null ? "h0.01" : ""}` : `L${place}`;
    }
    last = isKnown ? value : null;
  }
  return d;
}

// The last readings of all charts as a table.
function readingsTable(table, points, model) {
  const lines = CHARTS.flatMap((chart) => linesOf(chart, model).map(([name, label]) => ({ name, label, chart })));
  const end = points.at(-1)?.at ?? 0;
  const groups = CHARTS.map((chart) =>
    h("th", { scope: "colgroup", colspan: linesOf(chart, model).length }, `${chart.name}, ${chart.unit}`),
  );
  const head = h(
    "thead",
    {},
    h("tr", {}, h("td", {}), groups),
    h(
      "tr",
      {},
      h("th", { scope: "col" }, "seconds ago"),
      lines.map((it) => h("th", { scope: "col" }, it.label)),
    ),
  );
  const rows = points
    .slice(-30)
    .reverse()
    .map(({ at, values }) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, String(Math.round((end - at) / 1000))),
        lines.map((it) => h("td", {}, number(values[it.name]))),
      ),
    );
  table.replaceChildren(head, h("tbody", {}, rows));
}
