// Elements and numbers. Nothing here makes an element of text that came from elsewhere: texts stay texts.

const find = (id) => document.getElementById(id);

// An element with these attributes and children. A function as a value listens to the event of that name.
function h(tag, attributes, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((it) => it != null));
  return element;
}

let made = 0;
const freshId = () => `made-${++made}`;

// A number with as many digits as one reads: 0.9998, 12.3, 4,120.
function short(value) {
  if (typeof value !== "number") return String(value);
  if (!Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (Number.isInteger(value)) return size < 1e15 ? value.toLocaleString("en") : String(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(size < 1 ? 4 : 5)));
}

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function bytes(count) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 1000 && unit < 4; unit++) count /= 1000;
  return `${unit === 0 ? count : count.toPrecision(3)} ${units[unit]}`;
}

function milliseconds(value) {
  return value >= 1000 ? `${(value / 1000).toFixed(2)} s` : `${value.toFixed(value < 10 ? 2 : 1)} ms`;
}

// What the browser keeps for the page, which it may refuse to do: then there is nothing.
function kept(area, name) {
  try {
    return area().getItem(name) ?? "";
  } catch {
    return "";
  }
}

function keep(area, name, value) {
  try {
    if (value === "") area().removeItem(name);
    else area().setItem(name, value);
  } catch {
    // The page does without.
  }
}

const inTab = () => sessionStorage;
const inBrowser = () => localStorage;

// A problem with what was typed, and the field that it is about.
class Mistake extends Error {
  constructor(message, field) {
    super(message);
    this.field = field;
  }
}
