// The positions of the lines of a space-time diagram: one per task, vertex by vertex. The subtasks of a vertex with many
// subtasks share a band until the user opens it. Each still has its own height in the band, the first to copy its state
// at the top, so the cut is a curve that shows how far apart they were. In a job with many vertices, every vertex is a
// band at first, so that the whole job is visible. Bands are as high as fits.

const NEVER = -1;
const MOST_LINES = 8; // of a vertex
const MOST_OPEN = 24; // of all vertices that were not closed by hand
const HEADER = 20;
const GAP = 12, NARROW_GAP = 3;
const HEIGHTS = [[7, 46], [14, 36], [24, 28], [Infinity, 20]];
const LEAST_BAND = 15; // fits the line of its name
const BAND = 46;
const IN_BAND = 2.8; // the height per subtask in a band, up to
const MOST_BAND = 150;
const JOB = 26;

export class Lanes {
  // `room` is the height into which all lines should fit, if possible.
  constructor(run, opened, cut, room = Infinity) {
    const few = run.groups.filter((group) => group.tasks.length <= MOST_LINES);
    const crowded = few.reduce((sum, group) => sum + group.tasks.length, 0) > MOST_OPEN;
    const foldable = (group) => group.tasks.length > (crowded ? 1 : MOST_LINES);
    const open = (group) => !foldable(group) || opened.has(group.name);
    const lines = run.groups.filter(open).reduce((sum, group) => sum + group.tasks.length, 0);
    const height = HEIGHTS.find(([most]) => lines <= most)[1];
    const gap = crowded ? NARROW_GAP : GAP;
    this.y = new Array(run.tasks.length).fill(0);
    this.room = new Array(run.tasks.length).fill(height);
    this.labels = [];
    this.bands = [];
    let y = JOB + 8;
    const bands = run.groups.filter((group) => !open(group));
    const wished = (group) => Math.max(BAND, Math.min(MOST_BAND, IN_BAND * group.tasks.length));
    const headers = run.groups.filter((group) => foldable(group) && open(group)).length;
    const left = room - y - lines * height - headers * HEADER - run.groups.length * gap;
    const share = left / bands.reduce((sum, group) => sum + wished(group), 0);
    for (const group of run.groups) {
      const size = group.tasks.length;
      if (foldable(group) && open(group)) {
        this.labels.push({ y: y + HEADER / 2, text: group.name, count: size, group, fold: "open" });
        y += HEADER;
      }
      if (open(group)) {
        for (const task of group.tasks) {
          this.y[task] = y + 0.42 * height;
          this.labels.push({ y: this.y[task], text: run.tasks[task], task });
          y += height;
        }
      } else {
        const band = Math.max(LEAST_BAND, Math.floor(wished(group) * Math.min(1, share)));
        const when = (task) => (cut[task] === NEVER ? Infinity : cut[task]);
        const sorted = [...group.tasks].sort((one, two) => (when(one) < when(two) ? -1 : when(one) > when(two) ? 1 : one - two));
        sorted.forEach((task, i) => {
          this.y[task] = y + ((i + 0.5) / size) * band;
          this.room[task] = band / size;
        });
        this.bands.push({ y, height: band, group, sorted });
        this.labels.push({ y: y + band / 2, text: group.name, count: size, group, fold: "closed", isTall: band >= 2 * LEAST_BAND });
        y += band;
      }
      y += gap;
    }
    this.job = JOB;
    this.height = y;
  }
}
