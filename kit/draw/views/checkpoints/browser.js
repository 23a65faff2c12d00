// The script of a checkpoint's browser: folds become tabs and a list of operators, and values can be searched. `ask`
// sends a request to the kernel; without one, a search filters the rows that are on the page.

function browse(root, ask = null) {
  root.classList.add("b-on");
  tabbed(root, "Checkpoint", "horizontal");
  for (const each of root.querySelectorAll(".b-operators")) tabbed(each, "Operators", "vertical");
  const forms = [...root.querySelectorAll("form.b-ask")];
  const send = (form, more = {}) => {
    const fields = Object.fromEntries(new FormData(form));
    if (ask) ask({ ...form.dataset, ...fields, ...more, place: forms.indexOf(form) });
    else filter(form.nextElementSibling, fields.query);
  };
  for (const form of forms) {
    form.hidden = false;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (form.dataset.ask !== "values") form.nextElementSibling.textContent = "Reading …";
      send(form);
    });
    let soon = null;
    if (form.dataset.ask === "values") {
      form.addEventListener("input", () => {
        clearTimeout(soon);
        soon = setTimeout(() => send(form), ask ? 250 : 0);
      });
    }
  }
  root.addEventListener("click", ({ target }) => {
    const turn = target.closest("[data-at]");
    if (turn) send(turn.closest(".b-answer").previousElementSibling, { at: turn.dataset.at });
  });
  // Stop plain keys here: a notebook in command mode would handle them.
  root.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Tab") event.stopPropagation();
  });
  return ({ place, html }) => {
    if (forms[place]) forms[place].nextElementSibling.innerHTML = html;
  };
}

// The folds right below the holder become panels, one of which is shown, and their summaries the tabs.
function tabbed(holder, name, orientation) {
  const list = document.createElement("div");
  list.className = "b-tabs";
  for (const [key, value] of [["role", "tablist"], ["aria-label", name], ["aria-orientation", orientation]]) list.setAttribute(key, value);
  const tabs = [...holder.querySelectorAll(":scope > details")].map((fold) => {
    const [tab, panel] = [document.createElement("button"), document.createElement("section")];
    tab.type = "button";
    tab.setAttribute("role", "tab");
    tab.append(...fold.querySelector("summary").childNodes);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-label", tab.textContent.trim());
    fold.querySelector("summary").remove();
    panel.append(...fold.childNodes);
    fold.replaceWith(panel);
    return { tab, panel };
  });
  const open = (chosen) => tabs.forEach(({ tab, panel }, place) => {
    tab.setAttribute("aria-selected", String(place === chosen));
    tab.tabIndex = place === chosen ? 0 : -1;
    panel.hidden = place !== chosen;
  });
  tabs.forEach(({ tab }, place) => {
    list.append(tab);
    tab.addEventListener("click", () => open(place));
    tab.addEventListener("keydown", ({ key }) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
      if (by === undefined) return;
      const next = (place + by + tabs.length) % tabs.length;
      open(next);
      tabs[next].tab.focus();
    });
  });
  holder.prepend(list);
  open(0);
}

function filter(answer, query) {
  const rows = [...answer.querySelectorAll("tbody tr")];
  for (const row of rows) row.hidden = ![...row.cells].some((cell) => cell.textContent.toLowerCase().includes(query.toLowerCase()));
  const found = rows.filter((row) => !row.hidden).length;
  let note = answer.querySelector(".b-found");
  if (!note) {
    note = document.createElement("p");
    note.className = "b-found";
    answer.append(note);
  }
  note.textContent = query ? `${found} of the ${rows.length} rows on this page contain “${query}”.` : "";
}
