// The facts of the film about an item at a moment: its details, and a short tooltip.

const MOST_ROWS = 40;
const MOST_EVENTS = 8;
const FIRST_OFFERS = 6;
const PHASES = {
  waiting: "waits for the barrier",
  aligning: "barriers come in",
  writing: "writes its state",
  capturing: "captures in-flight data",
  sent: "has sent its acknowledgement",
  acknowledged: "has acknowledged",
  unheard: "has sent its acknowledgement, which was lost",
  declined: "has declined",
  aborted: "has dropped its part",
};
const ELEMENTS = {
  buffer: (rows) => `buffer of ${rows ?? 0} ${rows === 1 ? "record" : "records"}`,
  barrier: (id) => `barrier of checkpoint ${id}`,
  cancel: (id) => `checkpoint ${id} is cancelled`,
  watermark: () => "watermark",
  status: () => "idle, or active again",
  end: () => "end of data",
  last: () => "end of the stream",
  from: () => "descriptor of a recovered buffer",
  recovered: () => "end of what was recovered",
};
const PLACES = [["arrived", "receiver's queue"], ["wire", "on the wire"], ["queued", "sender's queue"]];

function bytes(size) {
  const unit = ["B", "kB", "MB", "GB"].findIndex((_, n) => size < 1000 ** (n + 1));
  const n = unit < 0 ? 3 : unit;
  return `${Number((size / 1000 ** n).toPrecision(3))} ${["B", "kB", "MB", "GB"][n]}`;
}

// A moment of a film for the details: facts by name, and the connections of tasks.
class FilmMoment {
  constructor(film, track) {
    this.film = film;
    this.track = track;
  }

  at(now) {
    this.now = now;
    const stage = this.film.stages[this.film.frames[now].stage];
    if (stage !== this.stage) {
      this.stage = stage;
      this.ends = new Map(stage.channels.map(([number, from, to]) => [number, [stage.tasks[from], stage.tasks[to]]]));
      this.into = new Map();
      this.outOf = new Map();
      for (const [number, [from, to]] of this.ends) {
        this.into.set(to, [...(this.into.get(to) ?? []), number]);
        this.outOf.set(from, [...(this.outOf.get(from) ?? []), number]);
      }
    }
    this.facts = this.track.at(now);
    return this;
  }

  get(name) {
    return this.facts.get(name);
  }

  channel(number) {
    return this.facts.get(`channel:${number}`) ?? {};
  }

  all(prefix) {
    const found = [];
    for (const [name, fact] of this.facts) if (name.startsWith(prefix)) found.push([name.slice(prefix.length), fact]);
    return found;
  }

  get pending() {
    return this.all("checkpoint:").filter(([, { status }]) => status === "pending").map(([id]) => Number(id));
  }

  phase(task) {
    const phases = this.get(`task:${task}`)?.phases ?? {};
    const id = Math.max(...Object.keys(phases).map(Number), -1);
    return id < 0 ? null : { id, phase: phases[id].at(-1)[0], pending: this.pending.includes(id) };
  }

  waits(task) {
    return (this.into.get(task) ?? []).filter((number) => this.channel(number).awaited !== undefined);
  }

  // Say on which worker a task runs, and with which others.
  worker(task) {
    const { tasks, workers, beside } = this.stage;
    const number = workers[tasks.indexOf(task)];
    return number === undefined ? undefined : `${number}, with ${beside}`;
  }

  // Return the last frames about an item, newest first.
  events(selected) {
    const found = [];
    for (let index = this.now; index >= 0 && found.length < MOST_EVENTS; index -= 1) {
      if (this.film.frames[index].about?.includes(selected)) found.push(index);
    }
    return found;
  }
}

// --- in few words -----------------------------------------------------------------------------------------------------

function held(channel) {
  const parts = PLACES.map(([place, where]) => [channel[place]?.length ?? 0, where]).filter(([count]) => count);
  return parts.length ? parts.map(([count, where]) => `${count} ${where === "on the wire" ? where : `in the ${where}`}`).join(", ") : "empty";
}

function gate(channel) {
  if (channel.held !== undefined) return `blocked: its barrier ${channel.held} came before the others`;
  if (channel.awaited !== undefined) return `barrier ${channel.awaited} is awaited from it`;
  return channel.ended ? "has ended" : "open";
}

function state(known, task) {
  const { state: now = "not started", error, lost, frozen } = known.get(`task:${task}`) ?? {};
  const met = known.phase(task);
  const words = [lost ? "killed" : frozen ? `frozen, was ${now.toLowerCase()}` : now.toLowerCase()];
  if (met?.pending && now === "RUNNING") words.push(`checkpoint ${met.id}: ${PHASES[met.phase]}`);
  const waits = known.waits(task).map((number) => known.ends.get(number)?.[0]);
  if (waits.length) words.push(`waits for ${few(waits)}`);
  if (error) words.push(error);
  return words.join("; ");
}

function few(names, most = 5) {
  return names.length <= most ? names.join(", ") : `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}

function summary(known, selected) {
  const [kind, name] = split(selected);
  if (kind === "task") return `${name}: ${state(known, name)}`;
  if (kind === "channel") {
    const [from, to] = known.ends.get(Number(name)) ?? ["?", "?"];
    return `${from} → ${to}: ${held(known.channel(name))}; ${gate(known.channel(name))}`;
  }
  if (kind === "lane") {
    const [from, to, channels] = known.stage.lanes[name] ?? ["?", "?", []];
    return `${from} → ${to}: ${channels.length} channels`;
  }
  if (kind === "vertex") {
    const [, operators = [], count] = known.stage.vertices.find(([each]) => each === name) ?? [];
    return `${operators.join(" → ")}: ${count} ${count === 1 ? "subtask" : "subtasks"}`;
  }
  if (kind === "message") {
    const [mail, task, toTask, id, since] = known.get(selected) ?? ["message", "?", true, null, 0];
    return `${mail}${id === null ? "" : ` ${id}`}, ${toTask ? `to ${task}` : `from ${task}`}, under way since ${duration(since)}`;
  }
  if (kind === "checkpoint") {
    const { status = "", acked = 0, expected = 0, reason } = known.get(selected) ?? {};
    return `checkpoint ${name}: ${status}, ${acked} of ${expected} acknowledged${reason ? `; ${reason}` : ""}`;
  }
  return selected === "job" ? "the JobMaster: what it knows of the job" : selected;
}

function split(selected) {
  const colon = selected.indexOf(":");
  return colon < 0 ? [selected, ""] : [selected.slice(0, colon), selected.slice(colon + 1)];
}

// --- in full ----------------------------------------------------------------------------------------------------------

// The panel beside the picture. `hands` are its callbacks: pick(name), go(frame), act(key), open(vertex).
class Details {
  constructor(hands) {
    this.hands = hands;
    this.root = make("aside", { class: "kit-details", "aria-label": "details", tabindex: -1 });
    this.root.hidden = true;
  }

  show(known, selected, { added, offers, n }) {
    if (!selected && this.root.matches(":focus-within")) this.root.closest(".kit-player").focus({ preventScroll: true });
    this.root.hidden = !selected;
    if (!selected) {
      this.root.replaceChildren();
      return;
    }
    const top = this.root.scrollTop;
    const unfolded = selected === this.selected && this.root.querySelector(".kit-offers details")?.open;
    this.selected = selected;
    const hadFocus = this.root.matches(":focus-within");
    this.known = known;
    const [kind, name] = split(selected);
    const body = this[kind]?.(name, selected) ?? [];
    const said = make("div", { class: "kit-added-details" });
    if (added?.selected === selected && added.n === n) said.innerHTML = added.html;
    const close = make("button", { type: "button", class: "kit-close", "aria-label": "close the details", title: "close (Escape)", click: () => this.hands.pick("") }, "×");
    this.root.replaceChildren(
      make("div", { class: "kit-details-head" }, make("b", {}, this.title(kind, name)), close),
      this.offered(selected, offers ?? [], unfolded),
      said,
      ...body,
      ...this.last(selected),
    );
    this.root.scrollTop = top;
    reach(this.root);
    if (hadFocus) this.root.focus({ preventScroll: true }); // the pressed button is gone, but this panel keeps the focus
  }

  title(kind, name) {
    if (kind === "channel") {
      const [from, to] = this.known.ends.get(Number(name)) ?? ["?", "?"];
      return `${from} → ${to}`;
    }
    if (kind === "lane") {
      const [from, to] = this.known.stage.lanes[name] ?? ["?", "?"];
      return `${from} → ${to}`;
    }
    if (kind === "message") return "Message";
    return kind === "job" ? "JobMaster" : kind === "checkpoint" ? `Checkpoint ${name}` : name;
  }

  // The possible actions on the item, and the others with the reasons; the first few at once. The outcome is at the top.
  offered(selected, offers, unfolded) {
    const act = (key) => () => {
      this.root.scrollTop = 0;
      this.hands.act(key);
    };
    const acts = offers.filter(({ on }) => on === selected).map(({ key, label, hint, why_not: not }) =>
      make("button", { type: "button", title: not || hint, "aria-disabled": Boolean(not) || undefined, disabled: Boolean(not), click: act(key) }, label));
    const more = acts.splice(split(selected)[0] === "checkpoint" ? 0 : FIRST_OFFERS);
    const label = acts.length ? `${more.length} more` : `${more.length} things that may fail`;
    return make("div", { class: "kit-offers" }, ...acts,
      more.length ? make("details", { open: unfolded }, make("summary", {}, label), make("div", { class: "kit-offers" }, ...more)) : "");
  }

  link(selected, label = split(selected)[1]) {
    return make("button", { type: "button", class: "kit-link", title: summary(this.known, selected), click: () => this.hands.pick(selected) }, label);
  }

  table(heads, rows, more = "") {
    const shown = rows.slice(0, MOST_ROWS);
    const rest = rows.length > shown.length ? `and ${rows.length - shown.length} more` : more;
    const body = shown.map((row) => make("tr", {}, ...row.map((cell) => make("td", { class: typeof cell === "number" ? "number" : undefined }, cell instanceof Node ? cell : String(cell ?? "")))));
    return make("div", { class: "kit-rows" },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", {}, head)))), make("tbody", {}, ...body)),
      rest ? make("p", { class: "kit-quiet" }, rest) : "");
  }

  // Show facts in two columns; leave out those without a value.
  list(pairs) {
    const rows = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
    return make("dl", {}, ...rows.flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value instanceof Node ? value : String(value))]));
  }

  heading(text) {
    return make("h4", {}, text);
  }

  last(selected) {
    const events = this.known.events(selected);
    if (!events.length) return [];
    const items = events.map((index) => {
      const { at, words } = this.known.film.frames[index];
      const because = words[2] ? `because ${words[2]}` : "";
      return make("li", {}, make("button", { type: "button", class: "kit-link", title: `go there${because ? `; ${because}` : ""}`, click: () => this.hands.go(index) }, duration(at)), ` ${words[0]}`, because ? make("span", { class: "kit-quiet" }, ` ${because}`) : "");
    });
    return [this.heading("Last events"), make("ul", { class: "kit-events" }, ...items)];
  }

  task(name) {
    const fact = this.known.get(`task:${name}`) ?? {};
    const waits = this.known.waits(name);
    const vertex = name.slice(0, name.lastIndexOf("/"));
    const phases = Object.entries(fact.phases ?? {}).sort(([a], [b]) => b - a)
      .flatMap(([id, times]) => times.map(([phase, at], n) => [n ? "" : this.link(`checkpoint:${id}`), PHASES[phase] ?? phase, duration(at)]));
    const inputs = (this.known.into.get(name) ?? []).map((number) => {
      const channel = this.known.channel(number);
      const [from] = this.known.ends.get(number);
      return [this.link(`channel:${number}`, from), channel.arrived?.length ?? 0, channel.wire?.length ?? 0, gate(channel)];
    });
    const outputs = (this.known.outOf.get(name) ?? []).map((number) => {
      const channel = this.known.channel(number);
      return [this.link(`channel:${number}`, this.known.ends.get(number)[1]), channel.queued?.length ?? 0, channel.wire?.length ?? 0];
    });
    return [
      this.list([
        ["state", fact.lost ? "killed" : `${fact.frozen ? "frozen, was " : ""}${(fact.state ?? "not started").toLowerCase()}`],
        ["error", fact.error],
        ["attempt", fact.attempt],
        ["worker", this.known.worker(name)],
        ["restored from", fact.restored === undefined ? undefined : this.link(`checkpoint:${fact.restored}`, `checkpoint ${fact.restored}`)],
        ["published up to", fact.published === undefined ? undefined : this.link(`checkpoint:${fact.published}`, `checkpoint ${fact.published}`)],
        ["waits for", waits.length ? `barrier ${this.known.channel(waits[0]).awaited} from ${few(waits.map((number) => this.known.ends.get(number)[0]), 8)}` : undefined],
        ["one of", this.link(`vertex:${vertex}`, vertex)],
      ]),
      ...(phases.length ? [this.heading("In checkpoints"), this.table(["", "phase", "since"], phases)] : []),
      ...(inputs.length ? [this.heading("Inputs"), this.table(["from", "queued", "on the wire", ""], inputs)] : []),
      ...(outputs.length ? [this.heading("Outputs"), this.table(["to", "queued", "on the wire"], outputs)] : []),
    ];
  }

  channel(name) {
    const channel = this.known.channel(name);
    const [from, to] = this.known.ends.get(Number(name)) ?? ["?", "?"];
    const rows = PLACES.flatMap(([place, where]) =>
      (channel[place] ?? []).map(([serial, kind, about, after, overtakes], n) => {
        const what = ELEMENTS[kind]?.(about) ?? kind;
        const checkpoint = after === undefined || after === null || kind === "barrier" ? "" : `after barrier ${after}`;
        return [n ? "" : where, kind === "barrier" ? this.link(`checkpoint:${about}`, what) : what, overtakes ? "overtakes" : checkpoint, serial];
      }));
    return [
      this.list([
        ["from", this.link(`task:${from}`, from)],
        ["to", this.link(`task:${to}`, to)],
        ["receiver", gate(channel)],
        ["last barrier taken", channel.taken],
      ]),
      this.heading("What is in it, next to be taken first"),
      rows.length ? this.table(["", "element", "", "number"], rows) : make("p", { class: "kit-quiet" }, "nothing"),
    ];
  }

  gone() {
    return [make("p", { class: "kit-quiet" }, "There is no such channel at this moment: the job runs with other subtasks.")];
  }

  lane(name) {
    const [from, to, channels] = this.known.stage.lanes[name] ?? ["?", "?", []];
    const busy = channels.map((number) => [number, this.known.channel(number)])
      .filter(([, channel]) => channel.held !== undefined || channel.awaited !== undefined || PLACES.some(([place]) => channel[place]?.length));
    const count = (key) => channels.filter((number) => this.known.channel(number)[key] !== undefined).length;
    return [
      this.list([["channels", channels.length], ["between", `${from} and ${to}`], ["blocked", count("held")], ["awaited", count("awaited")]]),
      this.table(["channel", "in it", "receiver"], busy.map(([number, channel]) => [this.link(`channel:${number}`, this.known.ends.get(number).join(" → ")), held(channel), gate(channel)]),
        busy.length < channels.length ? `${channels.length - busy.length} are empty and open` : ""),
    ];
  }

  vertex(name) {
    const [, operators = [], count = 0, most] = this.known.stage.vertices.find(([each]) => each === name) ?? [];
    const closed = this.known.stage.closed.includes(name);
    const rows = Array.from({ length: count }, (_, n) => {
      const task = `${name}/${n}`;
      const queued = (this.known.into.get(task) ?? []).reduce((sum, number) => sum + (this.known.channel(number).arrived?.length ?? 0), 0);
      return [this.link(`task:${task}`, task), state(this.known, task), queued];
    });
    const turn = this.hands.canOpen(name) && count > 1
      ? make("button", { type: "button", click: () => this.hands.open(name) }, closed ? "Draw each subtask" : "Draw as one box") : "";
    return [
      this.list([["operators", operators.join(" → ")], ["subtasks", count], ["max parallelism", most]]),
      turn,
      make("div", { class: "kit-all" }, this.table(["subtask", "state", "queued"], rows)),
    ];
  }

  checkpoint(name, selected) {
    const fact = this.known.get(selected);
    if (fact === undefined) return [make("p", { class: "kit-quiet" }, "It has not begun, or belongs to another run.")];
    const acks = this.known.all(`ack:${name}/`).sort(([, a], [, b]) => b - a);
    const done = new Set([...acks.map(([task]) => task), ...(fact.absent ?? [])]);
    const missing = fact.status === "pending" ? (fact.missing ?? this.known.stage.tasks.filter((task) => !done.has(task))) : [];
    return [
      this.list([
        ["status", fact.status + (fact.savepoint ? ", a savepoint" : "")],
        ["now", fact.step],
        ["reason", fact.reason],
        ["triggered at", duration(fact.triggered)],
        [`${fact.status} after`, fact.finished === undefined ? undefined : duration(fact.finished - fact.triggered)],
        ["acknowledged after", fact.status === "completed" && acks.length ? `${duration(acks[0][1] - fact.triggered)}, which Flink's web UI calls the end to end duration` : undefined],
        ["size", fact.size === undefined ? undefined : bytes(fact.size)],
        ["acknowledged", `${fact.acked} of ${fact.expected}`],
      ]),
      ...(missing.length ? [this.heading("Still to come"), this.table(["task", "what it does"], missing.map((task) => [this.link(`task:${task}`, task), state(this.known, task)]))] : []),
      ...(acks.length ? [this.heading("Acknowledged, the last first"), this.table(["task", "at", "after the trigger"], acks.map(([task, at]) => [this.link(`task:${task}`, task), duration(at), duration(at - fact.triggered)]))] : []),
    ];
  }

  message(name, selected) {
    const fact = this.known.get(selected);
    if (fact === undefined) return [make("p", { class: "kit-quiet" }, "It is not under way at this moment.")];
    const [mail, task, toTask, id, since] = fact;
    const link = this.link(`task:${task}`, task);
    return [this.list([
      ["says", mail],
      ["checkpoint", id === null ? undefined : this.link(`checkpoint:${id}`, String(id))],
      ["from", toTask ? this.link("job", "JobMaster") : link],
      ["to", toTask ? link : this.link("job", "JobMaster")],
      ["under way since", duration(since)],
    ])];
  }

  job() {
    const { status, epoch, restored, error } = this.known.get("job") ?? {};
    const checkpoints = this.known.all("checkpoint:").sort(([a], [b]) => b - a);
    const messages = this.known.all("message:");
    return [
      this.list([["job", (status ?? "").toLowerCase()], ["error", error], ["epoch", epoch], ["restored from", restored === undefined ? undefined : this.link(`checkpoint:${restored}`, `checkpoint ${restored}`)]]),
      this.heading("Vertices"),
      this.table(["", "subtasks"], this.known.stage.vertices.map(([name, , count]) => [this.link(`vertex:${name}`), count])),
      ...(checkpoints.length ? [this.heading("Checkpoints"), this.table(["", "status", "acknowledged"], checkpoints.map(([id, fact]) => [this.link(`checkpoint:${id}`), fact.reason ? `${fact.status}: ${fact.reason}` : fact.status, `${fact.acked} of ${fact.expected}`]))] : []),
      ...(messages.length ? [this.heading("Messages under way"), this.table(["", "says"], messages.map(([id, [mail, task, toTask, cp]]) => [this.link(`message:${id}`, `${toTask ? "to" : "from"} ${task}`), `${mail}${cp === null ? "" : ` ${cp}`}`]))] : []),
    ];
  }
}
