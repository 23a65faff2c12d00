// A run's space-time data from `kit/draw/space_time/space_time_data.py`, first whole and then in pieces: positions in time,
// the elements that are visible between two moments, and their side of a checkpoint's cut.

const BLOCK = 64;
const NEVER = -1;

export class SpaceTimeRun {
  constructor(data) {
    this.edition = NEVER;
    this.take(data);
  }

  // Take new data of the run; a new edition replaces all earlier data.
  take(data) {
    if (data.edition !== this.edition) {
      this.edition = data.edition;
      this.ms = [0];
      this.late = [0];
      this.elements = {};
      this.letters = {};
      this.checkpoints = new Map();
      this.ends = { elements: [], letters: [] };
    }
    Object.assign(this, {
      n: data.n, tasks: data.tasks, groups: data.groups, epochs: data.epochs, kinds: data.kinds, phases: data.phases,
      marks: data.marks, losses: data.losses, words: data.words,
    });
    this.BUFFER = data.kinds.indexOf("buffer");
    this.BARRIER = data.kinds.indexOf("barrier");
    this.takeClock(data.clock);
    for (const name of ["elements", "letters"]) this.takeTable(name, data[name]);
    for (const each of data.checkpoints) {
      const times = each.cut.map(([, n]) => n);
      this.checkpoints.set(each.id, { ...each, first: Math.min(...times), last: Math.max(...times) });
    }
    this.cuts = new Map();
  }

  takeClock({ from, runs }) {
    this.ms.length = this.late.length = from + 1;
    for (let i = 0; i < runs.length; i += 2) {
      const at = runs[i + 1];
      const late = Math.max(this.late.at(-1), at);
      for (let k = 0; k < runs[i]; k++) { this.ms.push(at); this.late.push(late); }
    }
    if (from === 0 && this.ms.length > 1) this.ms[0] = this.late[0] = this.ms[1];
  }

  takeTable(name, { from, columns }) {
    const table = this[name];
    for (const [column, values] of Object.entries(columns)) {
      const all = (table[column] ??= []);
      all.length = from;
      for (const value of values) all.push(value);
    }
    // for each block of rows, the last moment at which one of them is in flight, so that whole blocks can be skipped
    const ends = this.ends[name];
    const over = table.over;
    ends.length = Math.floor(from / BLOCK);
    for (let begin = ends.length * BLOCK; begin < over.length; begin += BLOCK) {
      let last = 0;
      for (let i = begin; i < Math.min(begin + BLOCK, over.length); i++) {
        last = Math.max(last, over[i] === NEVER ? Infinity : over[i]);
      }
      ends.push(last);
    }
  }

  // The first record at or after a time in ms.
  recordAt(ms) {
    let low = 0, high = this.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.late[middle] < ms) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Call `see(row)` for the rows of a table that are in flight at some moment from record a to record b.
  between(name, a, b, see) {
    const table = this[name];
    const begins = name === "elements" ? table.made : table.sent;
    const { over } = table;
    const ends = this.ends[name];
    for (let block = 0; block < ends.length; block++) {
      const begin = block * BLOCK;
      if (begins[begin] > b) break;
      if (ends[block] < a) continue;
      for (let i = begin; i < Math.min(begin + BLOCK, over.length) && begins[i] <= b; i++) {
        if (over[i] === NEVER || over[i] >= a) see(i);
      }
    }
  }

  // Return the record at which each task copied its state for a checkpoint; -1 for those that have not.
  cutOf(checkpoint) {
    const known = this.cuts.get(checkpoint);
    if (known) return known;
    const at = new Array(this.tasks.length).fill(NEVER);
    for (const [task, n] of this.checkpoints.get(checkpoint)?.cut ?? []) at[task] = n;
    this.cuts.set(checkpoint, at);
    return at;
  }

  // Return an element's side of a cut, as in `kit.run.journeys.Crossing`; "" if unknown.
  crossing(i, cut, epoch) {
    const { source, target, made, over, lost } = this.elements;
    if (this.elements.epoch[i] !== epoch) return "";
    const sender = cut[source[i]] ?? NEVER, receiver = cut[target[i]] ?? NEVER;
    if (sender === NEVER || receiver === NEVER) return "";
    const takenBefore = over[i] !== NEVER && !lost[i] && over[i] < receiver;
    if (made[i] < sender) return takenBefore ? "BEFORE" : "IN_FLIGHT";
    return takenBefore ? "AGAINST" : "AFTER";
  }

  // Return the newest checkpoint triggered by then; the first one if there was none yet.
  checkpointAt(n) {
    let found = null, first = null;
    for (const each of this.checkpoints.values()) {
      first ??= each;
      if (each.triggered <= n && (found === null || each.triggered >= found.triggered)) found = each;
    }
    return (found ?? first)?.id ?? null;
  }
}
