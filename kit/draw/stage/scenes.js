// The state at each frame of a film: the scene (sprites by name) and the facts (values by name).

const KEYFRAME_EVERY = 32;

// Maps by frame. Keyframes are kept, so a jump costs at most KEYFRAME_EVERY small merges; the next frame costs one.
class Track {
  constructor(frames, merge) {
    this.frames = frames;
    this.merge = merge;
    this.keyframes = [];
    this.shown = -1;
    this.map = new Map();
  }

  at(index) {
    if (index === this.shown) return this.map;
    let from = index;
    while (from !== this.shown && !this.keyframe(from) && from > 0 && !this.frames[from].whole) from -= 1;
    if (from !== this.shown) {
      const known = this.keyframe(from);
      this.map = new Map(known);
      this.shown = known ? from : from - 1;
    }
    while (this.shown < index) {
      this.shown += 1;
      this.merge(this.map, this.frames[this.shown], this.frames[this.shown - 1]);
      if (this.shown % KEYFRAME_EVERY === 0) this.keyframes[this.shown / KEYFRAME_EVERY] ??= new Map(this.map);
    }
    return this.map;
  }

  keyframe(index) {
    return index % KEYFRAME_EVERY === 0 ? this.keyframes[index / KEYFRAME_EVERY] : undefined;
  }

  // Drop the cached maps from this frame on.
  forget(from) {
    this.keyframes.length = Math.min(this.keyframes.length, Math.ceil(from / KEYFRAME_EVERY));
    if (this.shown >= from) this.shown = Infinity;
  }
}

function sprites(film) {
  return new Track(film.frames, (scene, frame, before) => {
    if (before === undefined || frame.whole || frame.stage !== before.stage) scene.clear();
    for (const [name, changes] of Object.entries(frame.set)) {
      if (changes === null) {
        scene.delete(name);
        continue;
      }
      const { look, ...rest } = changes;
      const sprite = { ...(look === undefined ? scene.get(name) : film.looks[look]) };
      for (const [key, value] of Object.entries(rest)) {
        if (value === null) delete sprite[key];
        else sprite[key] = value;
      }
      scene.set(name, sprite);
    }
  });
}

function facts(film) {
  return new Track(film.frames, (known, frame) => {
    if (frame.whole) known.clear();
    for (const [name, fact] of Object.entries(frame.facts)) {
      if (fact === null) known.delete(name);
      else known.set(name, fact);
    }
  });
}

// Return the film with one vertex open, from the data in the page.
async function withOpen(film, vertex) {
  const bytes = Uint8Array.from(atob(film.opened[vertex]), (each) => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { stages, looks, sets } = await new Response(stream).json();
  return { ...film, stages, looks, frames: film.frames.map((frame, index) => ({ ...frame, set: sets[index] })) };
}

// Return true for a frame whose picture the kernel has not drawn yet.
function isOwed(frame) {
  return frame.set === undefined;
}

// Add the kernel's new frames to a film; return false if they do not continue this film.
function extend(film, news) {
  if (news.base !== film.edition) return false;
  film.looks.push(...news.looks);
  film.edition = news.edition;
  for (const [number, set, facts] of news.drawn ?? []) Object.assign(film.frames[number], { set, facts });
  if (news.drawn) return true;
  film.frames.splice(news.keep, news.replaced ?? Infinity, ...news.frames);
  film.stages.push(...news.stages);
  for (const [number, isInStory] of Object.entries(news.in_story)) film.frames[number].in_story = isInStory;
  film.notes = news.notes;
  return true;
}
