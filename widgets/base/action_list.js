// Draws a list of actions as buttons under headings, and reports clicks. It decides nothing.

function node(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function render({ model, el }) {
  const root = node("div", "kit-picture kit-actions");
  const search = node("input", "kit-actions-search");
  search.type = "search";
  search.placeholder = "search: a task, a checkpoint, a word";
  const note = node("p", "kit-actions-note");
  const list = node("div", "kit-actions-list");
  const more = node("p", "kit-actions-note");
  root.append(search, note, list, more);
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

  const item = ({ key, label, hint = "", why_not = "" }) => {
    const button = node("button", "kit-action", label);
    button.type = "button";
    button.title = why_not || hint || label;
    if (!why_not) {
      button.addEventListener("click", () => model.send({ do: key }));
      return button;
    }
    button.disabled = true;
    const row = node("span", "kit-action-not");
    row.append(button, node("span", "kit-action-why", why_not));
    return row;
  };

  const draw = () => {
    const focused = root.contains(document.activeElement) ? document.activeElement.textContent : null;
    list.replaceChildren(
      ...model.get("groups").map(({ title, items }) => {
        const group = node("section", "kit-actions-group");
        if (title) group.append(node("h4", "", title));
        const buttons = node("div", "kit-actions-buttons");
        buttons.append(...items.map(item));
        group.append(buttons);
        return group;
      }),
    );
    if (focused) [...list.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
  };
  const say = () => {
    root.setAttribute("role", "group");
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
