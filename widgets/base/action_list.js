// Draws a list of actions as buttons under headings, and reports clicks. It decides nothing.

function render({ model, el }) {
  const search = make("input", { type: "search", class: "kit-actions-search", placeholder: "search: a task, a checkpoint, a word" });
  const note = make("p", { class: "kit-actions-note" });
  const list = make("div", { class: "kit-actions-list" });
  const more = make("p", { class: "kit-actions-note" });
  const root = make("div", { class: "kit-picture kit-actions", role: "group" }, search, note, list, more);
  el.replaceChildren(root);

  let asked = null;
  search.addEventListener("input", () => {
    clearTimeout(asked);
    asked = setTimeout(() => {
      model.set("query", search.value);
      model.save_changes();
    }, 150);
  });
  // Stop plain keys here: a notebook in command mode would handle them.
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Tab") event.stopPropagation();
  });

  const item = ({ key, label, hint, why_not: not }) => {
    const press = () => model.send({ do: key });
    const button = make("button", { type: "button", class: "kit-action", title: not || hint || label, disabled: Boolean(not), click: press }, label);
    return not ? make("span", { class: "kit-action-not" }, button, make("span", { class: "kit-action-why" }, not)) : button;
  };

  const draw = () => {
    const focused = root.contains(document.activeElement) ? document.activeElement.textContent : null;
    list.replaceChildren(...model.get("groups").map(({ title, items }) => make("section", { class: "kit-actions-group" },
      title ? make("h4", {}, title) : "", make("div", { class: "kit-actions-buttons" }, ...items.map(item)))));
    if (focused) [...list.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
  };
  const say = () => {
    root.setAttribute("aria-label", model.get("name"));
    search.setAttribute("aria-label", `search ${model.get("name")}`);
    note.textContent = model.get("note");
    note.hidden = !model.get("note");
    more.textContent = model.get("more");
    more.hidden = !model.get("more");
  };
  const changes = [["groups", draw], ["name", say], ["note", say], ["more", say]];
  for (const [name, act] of changes) model.on(`change:${name}`, act);
  draw();
  say();
  return () => {
    for (const [name, act] of changes) model.off(`change:${name}`, act);
  };
}

export default { render };
