// Draws the charts in the JSON of this page with uPlot, and sorts a table when a heading of it is clicked.
"use strict";
const root = document.getElementById("page");
const charts = JSON.parse(document.getElementById("charts").textContent);
const places = [...root.querySelectorAll(".plot")];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const show = (value) => {
  if (typeof value !== "number") return value ?? "–";
  return (Number.isInteger(value) || Math.abs(value) >= 1000 ? whole : short).format(value);
};

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
      const { width } = ctx.measureText(mark.label);
      const left = Math.min(x + 4, bbox.left + bbox.width - width);
      if (left < free) continue;
      ctx.fillText(mark.label, left, bbox.top + 12 * devicePixelRatio);
      free = left + width + 8;
    }
    ctx.restore();
  };
}

// Where the points of a chart are, each with what is said of it; the highest one of a place comes first.
function points(chart, plot) {
  return chart.names.map((name, index) => {
    const values = chart.series.map((it) => it.values[index]).filter((it) => it != null).sort((a, b) => b - a);
    return { name, x: plot.valToPos(chart.x[index], "x", true), ys: values.map((it) => plot.valToPos(it, "y", true)) };
  });
}

// A label beside each point: the best one first, and each where it covers no point and no other label. Where there is
// no such place for the label, the short one is tried.
function labels(chart) {
  return (plot) => {
    const { ctx, bbox } = plot;
    const unit = devicePixelRatio;
    const all = points(chart, plot).sort((a, b) => b.name.best - a.name.best);
    const around = (x, y) => [x - 6 * unit, y - 6 * unit, x + 6 * unit, y + 6 * unit];
    const taken = all.flatMap(({ x, ys }) => ys.map((y) => around(x, y)));
    const frame = [bbox.left, bbox.top, bbox.left + bbox.width, bbox.top + bbox.height];
    const isFree = ([left, top, right, bottom]) =>
      left >= frame[0] && top >= frame[1] && right <= frame[2] && bottom <= frame[3] &&
      taken.every((it) => right <= it[0] || left >= it[2] || bottom <= it[1] || top >= it[3]);
    ctx.save();
    ctx.textAlign = "left";
    ctx.textBaseline = "middle";
    for (const { name, x, ys: [y] } of all) {
      ctx.fillStyle = ctx.strokeStyle = colour(name.best ? "--best" : "--ink");
      ctx.font = `${name.best ? "bold " : ""}${12 * unit}px system-ui, sans-serif`;
      if (name.best) {
        ctx.lineWidth = 2 * unit;
        ctx.beginPath();
        ctx.arc(x, y, 9 * unit, 0, 2 * Math.PI);
        ctx.stroke();
      }
      const gap = (name.best ? 13 : 9) * unit;
      const half = 8 * unit;
      const fits = (text) => {
        const { width } = ctx.measureText(text);
        const beside = [[x + gap, y], [x - gap - width, y]];
        const above = [[x - width / 2, y - gap - half], [x - width, y - gap - half], [x, y - gap - half]];
        const below = [[x - width / 2, y + gap + half], [x - width, y + gap + half], [x, y + gap + half]];
        // A line goes on to both sides.
        const starts = chart.series[0].line ? [above, below, beside].flat() : [beside, above, below].flat();
        const boxes = starts.map(([left, middle]) => [left, middle - half, left + width, middle + half]);
        const box = boxes.find(isFree);
        return box && { text, box };
      };
      const found = fits(name.label) ?? fits(name.short);
      if (!found) continue;
      taken.push(found.box);
      ctx.fillText(found.text, found.box[0], (found.box[1] + found.box[3]) / 2);
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
  // Points that have names lie as far apart as they differ, and their labels need room.
  const range = (_, low, high) =>
    chart.names.length ? [0, (high || 1) * 1.08] : [Math.min(low, chart.marks[0]?.x ?? low), high];
  const top = chart.names.length ? 1.2 : 1.08;
  return {
    width,
    height: Math.max(220, Math.min(340, Math.round(width * 0.45))),
    scales: {
      x: { time: false, range },
      y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high || 1) * top] },
    },
    axes: [
      { ...axis(chart.x_label), values: (_, ticks) => ticks.map(show) },
      { ...axis(chart.y_label), size: 64, values: (_, ticks) => ticks.map(show) },
    ],
    series: [{ label: chart.x_label, value: (_, value) => show(value) }, ...series],
    hooks: {
      draw: [marks(chart), labels(chart)],
      setCursor: [(plot) => {
        const index = plot.cursor.idx;
        if (chart.names.length) pointed.textContent = index == null ? "" : chart.names[index]?.text ?? "";
      }],
    },
  };
}

function draw(chart, place) {
  place.replaceChildren();
  const data = [chart.x, ...chart.series.map((it) => it.values)];
  new uPlot(options(chart, place.clientWidth, place.nextElementSibling), data, place);
}

function sort(table, column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const key = (row) => {
    const { dataset, textContent } = row.cells[column];
    return dataset.value === undefined ? textContent : Number(dataset.value);
  };
  const compare = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (typeof x === "number" && typeof y === "number") return x - y;
    // Whatever has no number is last.
    if (typeof x !== typeof y) return typeof x === "number" ? -1 : 1;
    return x.localeCompare(y, "en", { numeric: true });
  };
  const rows = [...body.rows].sort((a, b) => (down ? compare(b, a) : compare(a, b)));
  body.append(...rows);
}

for (const table of root.querySelectorAll("table")) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.textContent = heading.textContent;
    button.onclick = () => sort(table, column, heading);
    heading.replaceChildren(button);
  });
}

const drawAll = () => charts.forEach((chart, index) => draw(chart, places[index]));
drawAll();
let width = root.clientWidth;
addEventListener("resize", () => {
  if (root.clientWidth === width) return;
  width = root.clientWidth;
  drawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
