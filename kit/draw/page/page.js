// The script of an exported page around the stage: a model in place of the notebook's, and tabs whose pictures follow
// the cursor. The model is `kitModel`, so that other scripts of the page can follow it as well.

const listeners = new Map();
const film = JSON.parse(document.getElementById("film").textContent);
const opensAt = film.frames.findLastIndex(({ n }) => n <= film.opens);
const linked = location.hash.slice(1);
const first = Math.min(linked === "" ? Math.max(0, opensAt) : Number(linked) || 0, film.frames.length - 1);
const model = {
  values: { film, value: first, n: film.frames[first].n, selected: "" },
  get(name) { return this.values[name]; },
  set(name, value) {
    if (this.values[name] === value) return;
    this.values[name] = value;
    for (const act of [...(listeners.get(`change:${name}`) ?? [])]) act();
  },
  save_changes() {
    if (location.protocol !== "about:") history.replaceState(null, "", `#${this.values.value}`);
  },
  on(name, act) { listeners.set(name, [...(listeners.get(name) ?? []), act]); },
  off(name, act) { listeners.set(name, (listeners.get(name) ?? []).filter((each) => each !== act)); },
};
window.kitModel = model;

// The visible panel shows its last piece that is not later than the cursor.
const tabs = [...document.querySelectorAll(".kit-tabs [role=tab]")];
const shown = new Map();

function panelOf(tab) {
  return document.getElementById(tab.getAttribute("aria-controls"));
}

function follow() {
  const tab = tabs.find((each) => each.getAttribute("aria-selected") === "true");
  if (!tab) return;
  const panel = panelOf(tab);
  const pieces = [...panel.querySelectorAll("template[data-n]")];
  const now = pieces.findLast((piece) => Number(piece.dataset.n) <= model.get("n")) ?? pieces[0];
  if (!now) return;
  if (shown.get(panel) !== now) {
    shown.set(panel, now);
    panel.querySelector(".kit-piece").replaceChildren(now.content.cloneNode(true));
  }
  tellWhen(panel, now);
  reach(document);
}

// If a picture is of an earlier moment than the cursor's, say so in a prominent place.
function tellWhen(panel, piece) {
  const asOf = panel.querySelector(".kit-piece .kit-as-of");
  const [at, cursor] = [film.frames.findLast(({ n }) => n <= Number(piece.dataset.n)), film.frames[model.get("value")]];
  const isEarlier = at !== undefined && at.at < cursor.at;
  asOf.classList.toggle("kit-earlier", isEarlier);
  asOf.dataset.cursor = isEarlier ? `, while the cursor is at ${duration(cursor.at)}: this page has no later picture before it` : "";
}

function open(tab) {
  for (const each of tabs) {
    const chosen = each === tab;
    each.setAttribute("aria-selected", String(chosen));
    each.tabIndex = chosen ? 0 : -1;
    panelOf(each).hidden = !chosen;
  }
  document.dispatchEvent(new CustomEvent("kit-panel", { detail: tab.id.slice(4) }));
  follow();
}

tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => open(tab));
  tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = tabs[(number + by + tabs.length) % tabs.length];
    open(next);
    next.focus();
  });
});
model.on("change:n", follow);
model.on("change:value", () => {
  const { n } = film.frames[model.get("value")];
  if (n !== model.get("n")) model.set("n", n);
});

stage.render({ model, el: document.getElementById("stage") });
if (tabs.length) open(tabs[0]);
addEventListener("resize", () => reach(document));
document.addEventListener("toggle", () => reach(document), true); // a fold shows more
reach(document);
document.querySelector(".kit-player").focus({ preventScroll: true });
