// Shows a message over the explorer, next to the last click in it, or next to the element that a key has pressed. When
// the kernel has gone, it shows that instead of controls that do nothing.

const GAP_PX = 10;
const WIDEST_PX = 440;
const GONE = "The kernel has stopped, so this explorer can do nothing more. Run the cell again to start over.";
const PARTS = ".kit-title, .kit-requests, .kit-aside, .jupyter-widget-tab";
const WITHOUT_KERNEL = ["autorestarting", "dead", "restarting", "terminating"];

// Call `gone` when the kernel ends, however it ends; returns a function that stops observing it.
function watchKernel(model, gone) {
  let stop = () => {};
  const watch = async () => {
    const real = await model.widget_manager?.get_model?.(model.get("comm_name"));
    const kernel = real?.widget_manager?.kernel;
    const changed = (_, status) => { if (WITHOUT_KERNEL.includes(status)) gone(); };
    const lost = () => { if (!real.comm_live) gone(); };
    real?.on?.("comm_live_update", lost);
    kernel?.statusChanged.connect(changed);
    kernel?.disposed.connect(gone);
    stop = () => {
      real?.off?.("comm_live_update", lost);
      kernel?.statusChanged.disconnect(changed);
      kernel?.disposed.disconnect(gone);
    };
  };
  watch();
  return () => stop();
}

function render({ model, el }) {
  const text = make("p");
  const close = () => { root.hidden = true; };
  const root = make("div", { class: "kit-notice" }, text, make("button", { type: "button", title: "close this message", click: close }, "×"));
  const end = make("p", { class: "kit-gone", hidden: true, role: "alert" });
  el.replaceChildren(root, end);
  let at = null;
  let panels = null;
  let soon = 0;

  // The panels, which are shown by a click, get wide tables and pictures by themselves.
  const changes = new MutationObserver(() => {
    cancelAnimationFrame(soon);
    soon = requestAnimationFrame(() => reach(panels, ".widget-html, .widget-html-content"));
  });
  const watchPanels = (app) => {
    if (panels?.isConnected) return;
    panels = app.querySelector(".jupyter-widget-tab");
    if (panels) changes.observe(panels, { childList: true, subtree: true });
  };
  const clicked = (event) => {
    const app = el.closest(".kit-explorer");
    if (!app?.contains(event.target) || root.contains(event.target)) return;
    watchPanels(app);
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
  const unwatch = watchKernel(model, () => {
    [root.hidden, end.hidden, end.textContent] = [true, false, GONE];
    for (const part of el.closest(".kit-explorer")?.querySelectorAll(PARTS) ?? []) part.inert = true;
  });
  document.addEventListener("click", clicked, true);
  model.on("change:text", show);
  model.on("change:is_error", show);
  show();
  return () => {
    unwatch();
    changes.disconnect();
    document.removeEventListener("click", clicked, true);
    model.off("change:text", show);
    model.off("change:is_error", show);
  };
}

export default { render };
