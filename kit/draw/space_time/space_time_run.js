// A run's document from `space_time_data.py`, first whole and then in pieces: positions in time, what is visible between
// two moments, the look and the hint of each thing.

const BLOCK = 64;
const NEVER = -1;
const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);

class SpaceTimeRun {
  constructor(data) {
    this.edition = NEVER;
    this.take(data);
  }

  // Take new data of the run; a new edition replaces all earlier data.
  take(data) {
    if (data.edition !== this.edition) {
      this.edition = data.edition;
      this.table = data.table;
      this.names = Object.keys(data.table.looks);
      this.RECORDS = this.names.indexOf("records");
      this.ms = [0];
      this.late = [0];
      this.elements = {};
      this.letters = {};
      this.checkpoints = new Map();
      this.ends = { elements: [], letters: [] };
    }
    const { n, lanes, groups, epochs, phrases } = data;
    Object.assign(this, { n, lanes, groups, epochs, phrases, layers: this.layersOf(data.marks.map(this.markOf, this)) });
    this.takeClock(data.clock);
    for (const name of ["elements", "letters"]) this.takeTable(name, data[name]);
    for (const each of data.checkpoints) this.checkpoints.set(each.id, this.checkpoint(each));
    this.cuts = new Map();
  }

  markOf(row) {
    const mark = Object.fromEntries(this.table.mark.map((name, k) => [name, row[k]]));
    const name = this.names[mark.look];
    return { ...mark, name, look: this.table.looks[name] };
  }

  layersOf(marks) {
    const layers = Array.from({ length: this.table.layers }, () => []);
    for (const mark of marks) layers[mark.look.layer ?? 0].push(mark);
    return layers;
  }

  checkpoint(known) {
    const marks = known.marks.map(this.markOf, this);
    const [first, last] = [Math.min, Math.max].map((of) => of(...known.cut.map(([, n]) => n)));
    const latest = (...ends) => marks.reduce((last, each) => Math.max(last, ...ends.map((end) => each[end])), NEVER);
    const isOver = known.finished !== NEVER;
    const extent = {
      since: known.triggered, since_ms: marks.reduce((first, each) => Math.min(first, each.since_ms), Infinity),
      until: isOver ? latest("since", "until") : NEVER, until_ms: latest("since_ms", "until_ms"),
    };
    const about = `${known.said}. ${known.went[0]?.toUpperCase() ?? ""}${known.went.slice(1)}`;
    return { ...known, about, first, last, extent, layers: this.layersOf(marks) };
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
    const { start: begins, over } = table;
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

  // Return the record at which each lane's task copied its state for a checkpoint; -1 for those that have not.
  cutOf(checkpoint) {
    const known = this.cuts.get(checkpoint);
    if (known) return known;
    const at = new Array(this.lanes.length).fill(NEVER);
    for (const [lane, n] of this.checkpoints.get(checkpoint)?.cut ?? []) at[lane] = n;
    this.cuts.set(checkpoint, at);
    return at;
  }

  // Return the look of an arrow: of a buffer of records, that of its side of the chosen cut. The sides of a channel are
  // those of `space_time_sides.py`: the last row on each, and its look.
  lookOf(name, i, chosen) {
    const { look, epoch, pick } = this[name];
    const known = look[i] === this.RECORDS ? this.checkpoints.get(chosen) : undefined;
    const sides = known?.epoch === epoch[i] ? known.sides[pick[i]] : undefined;
    return this.names[sides?.find(([last]) => last === NEVER || i <= last)[1] ?? look[i]];
  }

  // --- words -------------------------------------------------------------------------------------------------------

  // Describe a mark of a checkpoint or of the run.
  hint(mark, known) {
    return fill(mark.look.hint, {
      lane: this.lanes[mark.lane], when: duration(mark.since_ms), length: duration(mark.until_ms - mark.since_ms),
      words: mark.words, note: mark.note, id: known?.id, about: known?.about,
    });
  }

  // Describe an arrow, line by line: what it is, its times, and its side of the chosen cut.
  arrowHint(name, i, lookName, chosen) {
    const { phrase, source, target, start, sent, received, over, lost } = this[name];
    const { hint, times } = this.table.looks[lookName];
    const ends = { what: this.phrases[phrase[i]], source: this.lanes[source[i]], target: this.lanes[target[i]] };
    const names = [...times.slice(0, 3), lost[i] ? "lost" : times[3]];
    const shown = [start, sent, received, over].map((at, k) => [names[k], at[i]]).filter(([word, n]) => word && n !== NEVER)
      .map(([word, n]) => `${word} ${duration(this.ms[n])}`);
    if (over[i] === NEVER) shown.push(times[4]);
    const side = this.table.crossings[lookName];
    return [fill(hint, ends), shown.join(" · "), ...(side ? [`Checkpoint ${chosen}: ${side}`] : [])];
  }

  // Return the name of what a click on a mark chooses; "" for nothing.
  pick({ look: { picks = "" }, lane }, known) {
    return { checkpoint: `checkpoint:${known?.id}`, task: `task:${this.lanes[lane]}` }[picks] ?? picks;
  }

  // Return the entries of the legend, of what was drawn: their signs and words.
  legend({ seen, sampled }) {
    const { legend } = this.table;
    const names = Object.keys(legend).filter((name) => seen.has(name));
    const together = names.map((name) => legend[name].together);
    const shown = new Map();
    for (const name of names) {
      const whole = legend[name].together;
      const isShared = whole && together.filter((each) => each === whole).length > 1;
      const { sign, words } = legend[isShared ? whole : name];
      const part = sampled.has(name) ? ` (1 of ${sampled.get(name)} is drawn)` : "";
      shown.set(words + part, sign);
    }
    return [...shown];
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
