// The positions of the lines of a space-time diagram: one per task, vertex by vertex. The subtasks of a vertex with many
// subtasks share a band until the user opens it. Each still has its own height in the band, the first to copy its state
// at the top, so the cut is a curve that shows how far apart they were. In a job with many vertices, every vertex is a
// band at first, so that the whole job is visible. Bands are as high as fits.

const LEAST_BAND = 15; // fits the line of its name
const BAND = 46;
const IN_BAND = 2.8; // the height per subtask in a band, up to
const MOST_BAND = 150;

class Lanes {
  // `room` is the height into which all lines should fit, if possible. The sizes of lines are the table's.
  constructor(run, opened, cut, room = Infinity) {
    const { most_lines, most_open, rows, gap: wide, narrow_gap: narrow, header, job } = run.table.sizes;
    const few = run.groups.filter((group) => group.lanes.length <= most_lines);
    const crowded = few.reduce((sum, group) => sum + group.lanes.length, 0) > most_open;
    const foldable = (group) => group.lanes.length > (crowded ? 1 : most_lines);
    const open = (group) => !foldable(group) || opened.has(group.name);
    const lines = run.groups.filter(open).reduce((sum, group) => sum + group.lanes.length, 0);
    const height = rows.find(([most]) => most === null || lines <= most)[1];
    const gap = crowded ? narrow : wide;
    this.y = new Array(run.lanes.length).fill(0);
    this.room = new Array(run.lanes.length).fill(height);
    this.labels = [];
    this.bands = [];
    let y = job + 8;
    const bands = run.groups.filter((group) => !open(group));
    const wished = (group) => Math.max(BAND, Math.min(MOST_BAND, IN_BAND * group.lanes.length));
    const headers = run.groups.filter((group) => foldable(group) && open(group)).length;
    const left = room - y - lines * height - headers * header - run.groups.length * gap;
    const share = left / bands.reduce((sum, group) => sum + wished(group), 0);
    for (const group of run.groups) {
      const size = group.lanes.length;
      if (foldable(group) && open(group)) {
        this.labels.push({ y: y + header / 2, text: group.name, count: size, group, fold: "open" });
        y += header;
      }
      if (open(group)) {
        for (const lane of group.lanes) {
          this.y[lane] = y + 0.42 * height;
          this.labels.push({ y: this.y[lane], text: run.lanes[lane], lane });
          y += height;
        }
      } else {
        const band = Math.max(LEAST_BAND, Math.floor(wished(group) * Math.min(1, share)));
        const when = (lane) => (cut[lane] === NEVER ? Infinity : cut[lane]);
        const sorted = [...group.lanes].sort((one, two) => (when(one) < when(two) ? -1 : when(one) > when(two) ? 1 : one - two));
        sorted.forEach((lane, i) => {
          this.y[lane] = y + ((i + 0.5) / size) * band;
          this.room[lane] = band / size;
        });
        this.bands.push({ y, height: band, group, sorted });
        this.labels.push({ y: y + band / 2, text: group.name, count: size, group, fold: "closed", isTall: band >= 2 * LEAST_BAND });
        y += band;
      }
      y += gap;
    }
    this.job = job;
    this.y[0] = job - 8; // the JobMaster's line
    this.height = y;
  }
}
