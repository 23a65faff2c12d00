// The panel above the picture, which stays in view: the last event, and the JobMaster's checkpoints.

const MOST_CHIPS = 8;
const MOST_CELLS = 24;

class JobPanel {
  constructor(pick) {
    this.words = make("div", { class: "kit-words" });
    this.lines = ["what", "then", "because"].map((name) => make("p", { class: name, "data-says": name }));
    this.words.append(this.lines[0], make("div", { class: "kit-other-words" }, this.lines[1], this.lines[2]));
    this.root = make("div", { class: "kit-job", "data-pick": "job", role: "group", "aria-label": "JobMaster" });
    this.pick = pick;
    this.root.addEventListener("click", (event) => pick(event.target.closest("[data-pick]").dataset.pick));
  }

  show(frame, known) {
    const [what, then, because] = frame.words;
    [what, then, because ? `because ${because}` : ""].forEach((text, n) => {
      this.lines[n].textContent = text;
      this.lines[n].title = text;
    });
    const { status = "CREATED", epoch, restored, error } = known.get("job") ?? {};
    const bad = ["RESTARTING", "FAILING", "FAILED"].includes(status);
    const said = [status === "CREATED" ? "not started" : `job ${status.toLowerCase()}`, `epoch ${epoch}`];
    if (restored !== undefined) said.push(`restored from checkpoint ${restored}`);
    const head = make("div", { class: "kit-job-head" },
      make("button", { type: "button", class: "kit-job-name", "data-pick": "job", title: "details of the job" }, "JobMaster"),
      make("span", { class: bad ? "bad" : "" }, said.join(", ")));
    const all = known.all("checkpoint:").sort(([a], [b]) => a - b);
    const pending = all.filter(([, { status: now }]) => now === "pending");
    const rows = error ? [make("div", { class: "kit-pending bad", title: error }, make("span", { class: "kit-line" }, error))] : pending.slice(0, 2).map(([id, fact]) => this.progress(id, fact));
    if (!rows.length) rows.push(make("div", { class: "kit-pending quiet" }, "no checkpoint under way"));
    if (!error && pending.length > 2) rows.at(-1).append(make("span", { class: "quiet" }, `and ${pending.length - 2} more`));
    this.root.classList.toggle("acting", frame.by === "job");
    this.root.replaceChildren(head, make("div", { class: "kit-pendings" }, ...rows), this.history(all.filter(([, { status: now }]) => now !== "pending")));
  }

  progress(id, { expected = 0, acked = 0, step = "", savepoint, missing }) {
    const cells = make("span", { class: "kit-cells", "aria-hidden": "true" });
    if (expected && expected <= MOST_CELLS) {
      for (let n = 0; n < expected; n += 1) cells.append(make("i", { class: n < acked ? "done" : "" }));
    } else if (expected) {
      const part = make("i", { class: "part" });
      part.style.width = `${(100 * acked) / expected}%`;
      cells.classList.add("bar");
      cells.append(part);
    }
    let text = expected ? `${acked} of ${expected} acknowledged` : "";
    if (step && step !== "waiting for acknowledgements") text += `${text ? "; " : ""}${step}`;
    else if (acked && missing?.length) text += `; still to come: ${missing.join(", ")}`;
    return make("div", { class: "kit-pending" },
      make("button", { type: "button", class: `kit-flag cp${id % 4}`, "data-pick": `checkpoint:${id}`, title: `checkpoint ${id}: details` }, id),
      make("span", {}, savepoint ? "savepoint" : "checkpoint"), cells, make("span", { class: "kit-line", title: text }, text));
  }

  history(ended) {
    const chips = ended.slice(-MOST_CHIPS).map(([id, { status, triggered, finished, size, savepoint, reason = "" }]) => {
      const good = status === "completed";
      const took = finished === undefined ? "" : duration(finished - triggered);
      const what = good ? [took, size === undefined ? "" : bytes(size)].filter(Boolean).join(", ") : reason.replace(/^checkpoint /, "");
      const text = `${good ? "✓" : "✗"} ${savepoint ? "savepoint " : ""}${id}: ${what}`;
      return make("button", { type: "button", class: `kit-chip ${good ? "completed" : "lost"}`, "data-pick": `checkpoint:${id}`, title: text }, text);
    });
    const before = ended.length - chips.length;
    return make("div", { class: "kit-chips" }, before ? make("span", { class: "quiet" }, `${before} before`) : "", ...chips);
  }
}

// The legend: the signs in the picture at the moment.
class Legend {
  constructor() {
    this.root = make("div", { class: "kit-legend", role: "group", "aria-label": "legend" });
    this.last = "";
  }

  show(film, svg) {
    const shown = film.legend.map((entry) => {
      const like = svg.querySelector(`[data-layer] ${entry.has}`);
      return like && { ...entry, colour: /\bcp\d/.exec(like.getAttribute("class"))?.[0] ?? "cp0" };
    }).filter(Boolean);
    const key = shown.map(({ has, colour }) => has + colour).join();
    if (key === this.last) return;
    this.last = key;
    this.root.replaceChildren(...shown.map(({ svg: sign, width, says, colour }) => {
      const picture = svgNode("svg", { class: "kit-stage", width: width + 2, height: 18, viewBox: `-1 -9 ${width + 2} 18`, "aria-hidden": "true" });
      picture.innerHTML = sign.replaceAll("cp0", colour); // in its colours in the picture
      return make("span", {}, picture, says);
    }));
  }
}
