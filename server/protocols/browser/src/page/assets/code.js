// The request of the form as a program: curl, Python and JavaScript. The token is never in it.

const LONGEST = 6000;
const LANGUAGES = { curl: inCurl, Python: inPython, JavaScript: inJavaScript };

// The file that stands for the body in a program, or null where the body is short enough to be written out.
function bodyFile({ body, file }) {
  if (file) return file.name;
  return body.length > LONGEST ? "request.json" : null;
}

function headersOf({ type, headers }, credentials) {
  return Object.entries({ "Content-Type": type, ...headers, ...(token ? { Authorization: credentials } : {}) });
}

const inShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const inDouble = (text) => JSON.stringify(text);

function inCurl(request) {
  const file = bodyFile(request);
  const lines = [`curl ${inShell(location.origin + request.path)}`];
  for (const [name, value] of headersOf(request, "Bearer $MUSTER_TOKEN")) {
    lines.push(`-H ${value.includes("$") ? `"${name}: ${value}"` : inShell(`${name}: ${value}`)}`);
  }
  lines.push(file ? `--data-binary ${inShell(`@${file}`)}` : `-d ${inShell(request.body)}`);
  return lines.join(" \\\n  ");
}

function inPython(request) {
  const file = bodyFile(request);
  const headers = headersOf(request, "$").map(([name, value]) => {
    return `        ${inDouble(name)}: ${value === "$" ? '"Bearer " + os.environ["MUSTER_TOKEN"]' : inDouble(value)},\n`;
  });
  const body = file ? `open(${inDouble(file)}, "rb").read()` : `json.dumps(${pythonValue(request.body)}).encode()`;
  const imports = ["json", ...(token ? ["os"] : []), "urllib.request"];
  return (
    `import ${imports.join("\nimport ")}\n\n` +
    `request = urllib.request.Request(\n    ${inDouble(location.origin + request.path)},\n    data=${body},\n` +
    `    headers={\n${headers.join("")}    },\n)\n` +
    "with urllib.request.urlopen(request) as reply:\n    print(json.load(reply))"
  );
}

// JSON as Python writes it. Its texts are the same; its words are others.
function pythonValue(json) {
  const words = { true: "True", false: "False", null: "None", NaN: 'float("nan")', Infinity: 'float("inf")' };
  return json.replace(/"(?:[^"\\]|\\.)*"|\b(true|false|null|NaN|Infinity)\b/g, (all, word) => words[word] ?? all);
}

function inJavaScript(request) {
  const file = bodyFile(request);
  const headers = headersOf(request, "$").map(([name, value]) => {
    return `    ${inDouble(name)}: ${value === "$" ? "`Bearer ${process.env.MUSTER_TOKEN}`" : inDouble(value)},\n`;
  });
  // What JavaScript's numbers cannot hold is sent as a text.
  const isExact = !file && !/NaN|Infinity|\d{16}/.test(request.body);
  const body = file
    ? `await readFile(${inDouble(file)})`
    : isExact
      ? `JSON.stringify(${request.body})`
      : inDouble(request.body);
  return (
    `${file ? 'import { readFile } from "node:fs/promises";\n\n' : ""}` +
    `const reply = await fetch(${inDouble(location.origin + request.path)}, {\n  method: ${inDouble(request.method)},\n` +
    `  headers: {\n${headers.join("")}  },\n  body: ${body},\n});\nconsole.log(await reply.json());`
  );
}
