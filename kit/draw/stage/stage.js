// Steps through a film: the frames of a run as differences (see kit/draw/stage/film.py). The files scenes.js, picture.js,
// camera.js, details.js, job_panel.js and player.js are placed before this one, as one module.
//
// The same module is the front end of the notebook's Stepper (through anywidget) and the script of an exported page,
// where a few lines replace the widget's model. It decides nothing: Python has decided what is drawn where.

// The viewers of each film; each call gets its own model, but all share the film.
const viewers = new WeakMap();

function viewersOf(film) {
  if (!viewers.has(film)) viewers.set(film, new Set());
  return viewers.get(film);
}

// Receive new frames from the kernel, once for each model, whether it is shown or not.
function initialize({ model }) {
  const take = (content) => {
    if (content.film === undefined) return;
    const [film, news] = [model.get("film"), content.film];
    if (!extend(film, news)) model.send({ wanted: "film" });
    else viewersOf(film).forEach((player) => (news.drawn ? player.drawn() : player.goesOn(news)));
  };
  // Ask the kernel to draw the frames of a long run when a page shows it.
  const askForTheRest = () => {
    if (model.send && model.get("film").frames.some(isOwed)) model.send({ wanted: "pictures" });
  };
  model.on("msg:custom", take);
  model.on("change:film", askForTheRest);
  askForTheRest();
  return () => {
    model.off("msg:custom", take);
    model.off("change:film", askForTheRest);
  };
}

function render({ model, el }) {
  const player = new Player(model, el);
  viewersOf(player.film).add(player);
  const handlers = {
    "change:value": () => player.go(model.get("value"), false),
    "change:film": () => {
      viewersOf(player.film).delete(player);
      player.take(model.get("film"), model.get("value"));
      viewersOf(player.film).add(player);
    },
    "change:news": () => player.ask("news"),
    "change:goes_on": () => player.go(player.now, false),
  };
  for (const name of ["selected", "item_details", "offers"]) handlers[`change:${name}`] = () => player.detail();
  handlers["change:n"] = () => {
    const found = player.film.frames.findLastIndex(({ n }) => n <= model.get("n"));
    if (found >= 0 && found !== player.now) player.go(found, false);
    else if (model.get("selected")) player.detail();
  };
  for (const [name, act] of Object.entries(handlers)) model.on(name, act);
  return () => {
    player.close();
    viewersOf(player.film).delete(player);
    for (const [name, act] of Object.entries(handlers)) model.off(name, act);
  };
}

export default { initialize, render };
