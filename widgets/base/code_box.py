"""A piece of code to read, and to copy with one click."""

from __future__ import annotations

import traitlets

from kit.draw.assets import asset
from widgets.base.listening import ListeningWidget, listening


class CodeBox(ListeningWidget):
    """`text`, with a button that copies it."""

    _esm = listening(
        asset("elements.js")
        + """
    function render({ model, el }) {
      const code = make("pre", { tabindex: 0 });
      const copy = make("button", { type: "button", class: "kit-action" });
      const root = make("div", { class: "kit-picture kit-code" }, copy, code);
      const label = () => { copy.textContent = model.get("label"); };
      const show = () => { code.textContent = model.get("text"); };
      copy.addEventListener("click", async () => {
        try {
          const slow = new Promise((_, fail) => setTimeout(fail, 500)); // a browser may ask, and wait for an answer
          await Promise.race([navigator.clipboard.writeText(code.textContent), slow]);
        } catch {
          getSelection().selectAllChildren(code); // no clipboard without https: copy what is marked
          document.execCommand("copy");
        }
        copy.textContent = "Copied";
        setTimeout(label, 1500);
      });
      root.addEventListener("keydown", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey && event.key !== "Tab") event.stopPropagation();
      });
      el.replaceChildren(root);
      label();
      show();
      model.on("change:text", show);
      return () => model.off("change:text", show);
    }
    export default { render };
    """
    )
    text = traitlets.Unicode("").tag(sync=True)
    label = traitlets.Unicode("Copy").tag(sync=True)

    def __repr__(self) -> str:
        return f"CodeBox({len(self.text.splitlines())} lines)"
