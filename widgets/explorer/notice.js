// Shows a message over the explorer, next to the last click in it, or next to the element that a key has pressed.

const GAP_PX = 10;
const WIDEST_PX = 440;

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "kit-notice";
  const text = document.createElement("p");
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.title = "close this message";
  root.append(text, close);
  el.replaceChildren(root);
  let at = null;

  const clicked = (event) => {
    const app = el.closest(".kit-explorer");
    if (!app?.contains(event.target) || root.contains(event.target)) return;
    const [room, box] = [app.getBoundingClientRect(), event.target.getBoundingClientRect()];
    const byMouse = event.detail > 0;
    at = [(byMouse ? event.clientX : box.left) - room.left, (byMouse ? event.clientY + GAP_PX : box.bottom) - room.top];
  };
  const show = () => {
    const said = model.get("text");
    root.hidden = !said;
    text.textContent = said;
    text.className = model.get("is_error") ? "kit-explorer-error" : "kit-quiet";
    text.setAttribute("role", model.get("is_error") ? "alert" : "status");
    const width = el.closest(".kit-explorer")?.clientWidth ?? WIDEST_PX;
    const [x, y] = at ?? [0, 64];
    root.style.left = `${Math.max(0, Math.min(x, width - Math.min(WIDEST_PX, width)))}px`;
    root.style.top = `${y + GAP_PX}px`;
  };
  close.addEventListener("click", () => { root.hidden = true; });
  document.addEventListener("click", clicked, true);
  model.on("change:text", show);
  model.on("change:is_error", show);
  show();
  return () => {
    document.removeEventListener("click", clicked, true);
    model.off("change:text", show);
    model.off("change:is_error", show);
  };
}

export default { render };
