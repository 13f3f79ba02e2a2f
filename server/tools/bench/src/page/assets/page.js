// Shows the findings in the JSON of this page: charts by uPlot, tables that a click on a heading sorts.
"use strict";
const page = JSON.parse(document.getElementById("findings").textContent);
const root = document.getElementById("page");
const charts = [];

function add(parent, tag, text, name) {
  const element = parent.appendChild(document.createElement(tag));
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en");
const format = (value) => (Number.isInteger(value) ? whole : short).format(value);
const show = (value) => (typeof value === "number" ? format(value) : value ?? "–");

// Vertical lines where something changes, such as the number of users.
function marks(chart) {
  return (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("--mark");
    ctx.fillStyle = colour("--faint");
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    // The axes leave their own behind.
    ctx.textAlign = "left";
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    let free = -Infinity;
    for (const mark of chart.marks) {
      const x = plot.valToPos(mark.x, "x", true);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x < free) continue;
      const { width } = ctx.measureText(mark.label);
      const left = Math.min(x + 4, bbox.left + bbox.width - width);
      ctx.fillText(mark.label, left, bbox.top + 12 * devicePixelRatio);
      free = left + width + 8;
    }
    ctx.restore();
  };
}

function options(chart, width, pointed) {
  const ink = colour("--ink");
  const line = colour("--line");
  const axis = (label) => ({ label, stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line } });
  const series = chart.series.map((it, index) => {
    const stroke = colour(`--series-${(index % 5) + 1}`);
    const points = { show: chart.points || chart.x.length < 3, size: 9, fill: stroke, stroke };
    const common = { label: it.name, stroke, width: 2, points, spanGaps: true, value: (_, value) => show(value) };
    return chart.points && !it.line ? { ...common, paths: () => null } : common;
  });
  return {
    width,
    height: Math.max(220, Math.min(340, Math.round(width * 0.45))),
    scales: { x: { time: false, range: (_, low, high) => [Math.min(low, chart.marks[0]?.x ?? low), high] }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * 1.08] } },
    axes: [axis(chart.x_label), { ...axis(chart.y_label), size: 64, values: (_, ticks) => ticks.map(show) }],
    series: [{ label: chart.x_label, value: (_, value) => show(value) }, ...series],
    hooks: {
      draw: [marks(chart)],
      setCursor: [(plot) => {
        const index = plot.cursor.idx;
        if (chart.names.length) pointed.textContent = index == null ? "" : chart.names[index] ?? "";
      }],
    },
  };
}

function drawChart(chart, place, pointed) {
  place.replaceChildren();
  const data = [chart.x, ...chart.series.map((it) => it.values)];
  new uPlot(options(chart, place.clientWidth, pointed), data, place);
}

function sort(table, body, rows, column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const compare = (a, b) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    if (typeof x === "number" && typeof y === "number") return x - y;
    if (x == null || y == null) return (x == null) - (y == null);
    return String(x).localeCompare(String(y));
  };
  const sorted = [...rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
  fill(body, sorted);
}

function fill(body, rows) {
  body.replaceChildren();
  for (const row of rows) {
    const line = add(body, "tr", undefined, row.best ? "best" : "");
    for (const cell of row.cells) add(line, "td", show(cell), typeof cell === "string" ? "text" : "");
  }
}

add(root, "h1", page.title);
const facts = add(root, "dl", undefined, "facts");
for (const [name, value] of page.facts) {
  const fact = add(facts, "div");
  add(fact, "dt", name);
  add(fact, "dd", value);
}
for (const warning of page.warnings) add(root, "p", warning, "warning");
for (const chart of page.charts) {
  add(root, "h2", chart.title);
  const place = add(root, "div", undefined, "chart");
  const pointed = add(root, "div", "", "pointed");
  charts.push(() => drawChart(chart, place, pointed));
}
for (const { title, columns, rows } of page.tables) {
  add(root, "h2", title);
  const table = add(add(root, "div", undefined, "scroll"), "table");
  const head = add(add(table, "thead"), "tr");
  const body = add(table, "tbody");
  columns.forEach((name, column) => {
    const isText = rows.some((it) => typeof it.cells[column] === "string");
    const heading = add(head, "th", undefined, isText ? "text" : "");
    add(heading, "button", name).onclick = () => sort(table, body, rows, column, heading);
  });
  fill(body, rows);
}
for (const { title, text } of page.listings) {
  add(root, "h2", title);
  add(root, "pre", text);
}
if (page.notes.length) {
  add(root, "h2", "What was measured, and how");
  const list = add(root, "ul");
  for (const note of page.notes) add(list, "li", note);
}

const drawAll = () => charts.forEach((draw) => draw());
drawAll();
let width = root.clientWidth;
addEventListener("resize", () => {
  if (root.clientWidth === width) return;
  width = root.clientWidth;
  drawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
