// Where the lines of a space-time diagram lie: one per task, vertex by vertex. The subtasks of a vertex with many of them
// share a band until somebody opens it; in it each still has a height of its own, the first to copy its state at the top,
// so the cut is a curve that shows how far apart they were.

const NEVER = -1;
const MOST_LINES = 8;
const HEADER = 20;
const GAP = 12;
const HEIGHTS = [[7, 46], [14, 36], [Infinity, 28]];
const BAND = 46;
const IN_BAND = 2.8; // each subtask of a band has so much, as long as that is not more than
const MOST_BAND = 150;
const JOB = 26;

export class Lanes {
  constructor(run, opened, cut) {
    const open = (group) => group.tasks.length <= MOST_LINES || opened.has(group.name);
    const lines = run.groups.filter(open).reduce((sum, group) => sum + group.tasks.length, 0);
    const height = HEIGHTS.find(([most]) => lines <= most)[1];
    this.y = new Array(run.tasks.length).fill(0);
    this.room = new Array(run.tasks.length).fill(height);
    this.labels = [];
    this.bands = [];
    let y = JOB + 8;
    for (const group of run.groups) {
      const size = group.tasks.length;
      const foldable = size > MOST_LINES;
      if (foldable && open(group)) {
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
        const band = Math.max(BAND, Math.min(MOST_BAND, IN_BAND * size));
        const when = (task) => (cut[task] === NEVER ? Infinity : cut[task]);
        const sorted = [...group.tasks].sort((one, two) => (when(one) < when(two) ? -1 : when(one) > when(two) ? 1 : one - two));
        sorted.forEach((task, i) => {
          this.y[task] = y + ((i + 0.5) / size) * band;
          this.room[task] = band / size;
        });
        this.bands.push({ y, height: band, group, sorted });
        this.labels.push({ y: y + band / 2, text: group.name, count: size, group, fold: "closed" });
        y += band;
      }
      y += GAP;
    }
    this.job = JOB;
    this.height = y;
  }
}
