// The space-time diagram as a widget. The run's data arrive once as a whole, in `data`, and then in pieces, in `more`. The
// pieces are joined outside the model, keyed by their initial data, so each view of the model has all of them.

const kept = new WeakMap();

function keptOf(model) {
  const data = model.get("data");
  if (!kept.has(data)) kept.set(data, { parts: [data], panes: new Set() });
  return kept.get(data);
}

function initialize({ model }) {
  let now = keptOf(model);
  const whole = () => {
    const { panes } = now;
    now = keptOf(model);
    for (const pane of panes) {
      pane.forget();
      pane.take(now.parts[0]);
      now.panes.add(pane);
    }
  };
  const more = () => {
    const piece = model.get("more");
    if (piece.clock === undefined) return;
    if (piece.part !== now.parts.length) { model.send({ wanted: "all" }); return; }
    now.parts.push(piece);
    for (const pane of now.panes) pane.take(piece);
  };
  model.on("change:data", whole);
  model.on("change:more", more);
  // Follow a leading stage in the browser, because the kernel receives its cursor only when it rests.
  const lead = model.get("stage")?.replace("IPY_MODEL_", "");
  const follow = (stage) => stage.on("change:n", () => model.set("n", stage.get("n")));
  if (lead) model.widget_manager?.get_model(lead).then(follow);
  if (model.get("more").part !== undefined) model.send({ wanted: "all" });
  return () => { model.off("change:data", whole); model.off("change:more", more); };
}

function render({ model, el }) {
  const box = document.createElement("div");
  el.append(box);
  const { parts, panes } = keptOf(model);
  const pane = new SpaceTimePane(box, parts[0], {
    go: (n) => { model.set("n", n); model.save_changes(); },
    pick: (name) => { model.set("selected", name); model.save_changes(); },
  });
  for (const piece of parts.slice(1)) pane.take(piece);
  panes.add(pane);
  const moved = () => pane.show(model.get("n"));
  const chosen = () => { const id = model.get("checkpoint"); pane.choose(id === 0 ? "auto" : id); };
  pane.show(model.get("n"));
  if (model.get("checkpoint")) { chosen(); pane.fitTo(pane.chosen); }
  model.on("change:n", moved);
  model.on("change:checkpoint", chosen);
  return () => {
    keptOf(model).panes.delete(pane);
    model.off("change:n", moved);
    model.off("change:checkpoint", chosen);
    pane.close();
  };
}

export default { initialize, render };
