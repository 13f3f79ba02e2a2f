// The charts of the page: when the metrics are read, and what is drawn then.

class Live {
  readings = new Readings();
  isPaused = false;
  timer = null;
  pointed = null;
  charts = CHARTS.map((chart) => chartOf(chart, (share) => this.point(share)));

  start() {
    find("charts").replaceChildren(...this.charts.map((it) => it.element));
    document.addEventListener("visibilitychange", () => this.wake());
    addEventListener("resize", () => this.draw());
    find("pause").addEventListener("click", () => this.pause(!this.isPaused));
    find("numbers").addEventListener("toggle", () => this.draw());
    find("scope").addEventListener("change", (event) => {
      this.readings.of(event.target.value);
      this.draw();
    });
    this.draw();
    this.wake();
  }

  pause(isPaused) {
    this.isPaused = isPaused;
    find("pause").textContent = isPaused ? "Go on" : "Pause";
    find("pause").setAttribute("aria-pressed", String(isPaused));
    this.wake();
  }

  point(share) {
    this.pointed = share === null || share < 0 || share > 1 ? null : share;
    this.draw();
  }

  // Reads now, and then each second while the page is seen.
  wake() {
    clearTimeout(this.timer);
    this.timer = null;
    if (!this.isPaused && document.visibilityState === "visible") this.read();
  }

  async read() {
    const begun = performance.now();
    const mine = (this.timer = setTimeout(() => {}, 0));
    let wait = 1000;
    try {
      const { text } = await send({ method: "GET", path: "/metrics" });
      if (this.timer !== mine) return;
      this.readings.add(readMetrics(text), Date.now());
      this.say("");
      // The server is back: it may have other models now.
      if (find("health").textContent === NOT_REACHED) loadModels();
      this.draw();
      // A large page of metrics is read less often: at most a fifth of the time goes into it.
      wait = Math.max(wait, 4 * (performance.now() - begun));
    } catch (refused) {
      if (!(refused instanceof Refused)) throw refused;
      if (this.timer !== mine) return;
      const needsToken = refused.status === 401 || refused.status === 403;
      this.say(`The metrics cannot be read: ${refused.message} ${advice(refused.status)}`);
      if (refused.status === 0) showHealth(NOT_REACHED, "bad");
      // Asking again with the same token helps nobody.
      if (needsToken) return;
      wait = 5000;
    }
    this.timer = setTimeout(() => this.wake(), Math.max(50, wait - (performance.now() - begun)));
  }

  say(text) {
    const place = find("live-state");
    if (place.textContent !== text) place.textContent = text;
  }

  draw() {
    const { points, model, memory } = this.readings;
    for (const chart of this.charts) chart.draw(points, model, this.pointed);
    this.charts.at(-1).element.querySelector("h3 span").textContent =
      memory > 0 ? `cores; ${bytes(memory)} of memory` : "cores";
    if (find("numbers").open) readingsTable(find("readings"), points, model);
  }
}
