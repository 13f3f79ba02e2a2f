// The fields of a form. Each has its element, and `read`, which fails with a `Mistake` where the field is not filled in
// well. A change inside bubbles up as `input`.

const changed = (element) => element.dispatchEvent(new Event("input", { bubbles: true }));

function labelled(name, control, { kind, hint }) {
  control.id = freshId();
  const about = hint && h("p", { class: "faint hint", id: `${control.id}-hint` }, hint);
  if (about) control.setAttribute("aria-describedby", about.id);
  const label = h("label", { for: control.id }, name, kind ? h("span", { class: "kind" }, ` ${kind}`) : null);
  return h("div", { class: "field" }, label, control, about);
}

// A text of one or several lines.
function textField(name, { value = "", hint, mayBeEmpty = false, rows = 3 }) {
  const area = h("textarea", { rows, spellcheck: "true" });
  area.value = value;
  const read = () => {
    if (area.value.trim() === "" && !mayBeEmpty) throw new Mistake(`${name}: write something.`, area);
    return area.value;
  };
  return { element: labelled(name, area, { hint }), read };
}

// Several texts, one in each line.
function listField(name, { value, hint = "One in each line." }) {
  const field = textField(name, { value: value.join("\n"), hint });
  return {
    ...field,
    read: () =>
      field
        .read()
        .split("\n")
        .map((it) => it.trim())
        .filter((it) => it !== ""),
  };
}

// The values of a tensor, with the shape that they have and a table of them. `read` gives null where an optional one is
// left out.
function tensorField(input, { value, names, clear }) {
  const area = h("textarea", {
    class: "values",
    rows: value.split("\n").length > 3 ? 6 : 3,
    spellcheck: "false",
    wrap: "off",
  });
  area.value = value;
  const texts = input.datatype === "BYTES";
  const hint = texts ? "One text in each line." : "Paste a row, several rows, or an array of JSON.";
  const field = labelled(input.name, area, { kind: `${input.datatype} ${times(input.shape)}`, hint });
  const seen = h("div", {});
  const read = () => {
    area.removeAttribute("aria-invalid");
    if (input.optional && area.value.trim() === "") return null;
    try {
      if (area.value.trim() === "") throw new Mistake(`${input.name}: there are no values.`);
      const lines = readLines(area.value, input);
      return { input, lines, shape: shapeOf(lines, input) };
    } catch (mistake) {
      area.setAttribute("aria-invalid", "true");
      throw new Mistake(mistake.message, area);
    }
  };
  const preview = () => {
    try {
      const { lines, shape } = read() ?? { lines: [], shape: [0] };
      const values = lines.flat().map((it) => (texts ? JSON.parse(it) : it));
      const columns = names?.length === shape.at(-1) ? names : null;
      const isWorthIt = values.length > 1 && !texts;
      const about = { names: columns, caption: "As the model gets it", datatype: input.datatype };
      seen.replaceChildren(isWorthIt ? tensorTable(values, shape, about) : "");
    } catch (mistake) {
      seen.replaceChildren(area.value.trim() === "" ? "" : h("p", { class: "mistake" }, mistake.message));
    }
  };
  area.addEventListener("input", preview);
  const put = (text) => {
    area.value = text;
    changed(area);
  };
  const buttons = clear && [
    h(
      "button",
      { type: "button", click: () => put(value), "aria-label": `Example values for ${input.name}` },
      "Example",
    ),
    h("button", { type: "button", click: () => put(""), "aria-label": `Clear ${input.name}` }, "Clear"),
  ];
  field.append(...(buttons || []), seen);
  preview();
  return { element: field, read };
}

// A file: chosen, dropped, pasted, or made here by `makers`, which are buttons. `read` gives a blob with a name.
function fileField(name, { accept, media, hint, makers }) {
  const chooser = h("input", { type: "file", accept, id: freshId(), "aria-label": `${name}: choose a file` });
  const shown = h("div", { class: "faint" }, hint);
  const zone = h("div", { class: "drop" }, shown, chooser);
  const problem = h("p", { class: "mistake", role: "alert" });
  const after = h("div", {});
  let file = null,
    address = null;
  const take = (blob, called) => {
    if (address) URL.revokeObjectURL(address);
    file = { blob, name: called ?? blob.name ?? name, isMade: !(blob instanceof File) };
    address = URL.createObjectURL(blob);
    file.address = address;
    problem.textContent = "";
    const about = `${file.name}, ${bytes(blob.size)}`;
    const show = media(address, about);
    show.addEventListener("error", () =>
      shown.replaceChildren(`${about}. The browser cannot show it; the server may read it.`),
    );
    shown.replaceChildren(...(show.matches("img") ? [show, h("div", {}, about)] : [about]));
    after.replaceChildren(...(show.matches("img") ? [] : [show]));
    changed(zone);
  };
  chooser.addEventListener("change", () => chooser.files[0] && take(chooser.files[0]));
  for (const kind of ["dragover", "dragleave", "drop"]) {
    zone.addEventListener(kind, () => zone.classList.toggle("over", kind === "dragover"));
  }
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
  });
  zone.addEventListener("dragover", (event) => event.preventDefault());
  const say = (mistake) => {
    problem.textContent = mistake.message;
  };
  const element = h(
    "div",
    { class: "field" },
    h("div", { class: "named" }, name),
    zone,
    after,
    makers.map((make) => make(take, say)),
    problem,
  );
  const read = () => {
    if (!file) throw new Mistake(`${name}: choose or drop a file.`, chooser);
    return file;
  };
  return { element, read, take };
}

function pictureField() {
  return fileField("Picture", {
    accept: "image/*",
    hint: "Drop a picture here, paste one, or choose a file.",
    media: (src, alt) => h("img", { src, alt }),
    makers: [(take) => h("button", { type: "button", click: () => drawn((it) => take(it, "drawn.png")) }, "Draw one")],
  });
}

// A picture of a shape, for those without one at hand.
function drawn(take) {
  const side = 160;
  const canvas = h("canvas", { width: side, height: side });
  const pen = canvas.getContext("2d");
  const hue = Math.floor(Math.random() * 360);
  const corners = [3, 4, 5][Math.floor(Math.random() * 3)];
  pen.fillStyle = `hsl(${hue + 180} 40% 85%)`;
  pen.fillRect(0, 0, side, side);
  pen.fillStyle = `hsl(${hue} 75% 45%)`;
  pen.translate(side / 2, side / 2);
  pen.beginPath();
  for (let point = 0; point < (corners === 5 ? 10 : corners); point++) {
    const angle = (point * 2 * Math.PI) / (corners === 5 ? 10 : corners) - Math.PI / (corners === 4 ? 4 : 2);
    const reach = side * (corners === 5 && point % 2 ? 0.16 : 0.38);
    pen.lineTo(reach * Math.cos(angle), reach * Math.sin(angle));
  }
  pen.fill();
  canvas.toBlob(take, "image/png");
}

function soundField() {
  const player = (src, about) => h("audio", { src, controls: true, "aria-label": about });
  return fileField("Sound", {
    accept: "audio/*,.wav,.flac,.mp3,.ogg",
    hint: "Drop a sound here, choose a file, or record one.",
    media: player,
    makers: [
      (take) => h("button", { type: "button", click: () => take(toneWav(), "tone.wav") }, "Use a tone"),
      recordButton,
    ],
  });
}

// A button that records, and when it is pressed again takes what it heard.
function recordButton(take, say) {
  const loud = h("meter", { min: 0, max: 1, hidden: true, "aria-label": "Loudness" });
  let finish = null;
  const button = h("button", { type: "button", "aria-pressed": "false", click: press }, "Record");
  function leave() {
    const ended = finish;
    finish = null;
    ended?.();
  }
  async function press() {
    button.disabled = true;
    try {
      if (finish) {
        const ended = finish;
        finish = null;
        take(await ended(), "recording.wav");
      } else {
        finish = await record((it) => {
          loud.value = it;
          // Another model was chosen: nobody can stop it any more.
          if (!button.isConnected) leave();
        });
      }
    } catch (problem) {
      say(problem);
    }
    button.disabled = false;
    button.textContent = finish ? "Stop recording" : "Record";
    button.classList.toggle("recording", finish !== null);
    button.setAttribute("aria-pressed", String(finish !== null));
    loud.hidden = finish === null;
  }
  return [button, loud];
}
