// What is larger than its room scrolls. While it does, it takes the focus, so that keys scroll it as well.

const SCROLLERS = ".kit-view, .kit-scroll, .kit-graph, .kit-piece, .kit-rows, .kit-added-details, .wide, .times, pre";

// Let keys scroll what scrolls in an element, also what other selectors name. Returns what was not reached before.
function reach(root, others = "") {
  const reached = [];
  for (const each of root.querySelectorAll(`${SCROLLERS}${others && `, ${others}`}`)) {
    const room = getComputedStyle(each);
    const wide = room.overflowX !== "visible" && each.scrollWidth > each.clientWidth;
    const high = room.overflowY !== "visible" && each.scrollHeight > each.clientHeight;
    if ((wide || high) && !each.hasAttribute("tabindex")) {
      each.tabIndex = 0;
      each.dataset.reached = "";
      reached.push(each);
    } else if (!wide && !high && each.dataset.reached !== undefined) {
      each.removeAttribute("tabindex");
      delete each.dataset.reached;
    }
  }
  return reached;
}
