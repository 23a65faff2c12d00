"""A piece of code to read, and to copy with one click."""

from __future__ import annotations

from typing import Any

import traitlets

from widgets.base.listening import ListeningWidget, listening


class CodeBox(ListeningWidget):
    """`text`, with a button that copies it."""

    _esm = listening("""
    function render({ model, el }) {
      const root = document.createElement("div");
      root.className = "kit-picture kit-code";
      const code = document.createElement("pre");
      code.tabIndex = 0;
      const copy = document.createElement("button");
      copy.type = "button";
      copy.className = "kit-action";
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
      root.append(copy, code);
      el.replaceChildren(root);
      label();
      show();
      model.on("change:text", show);
      return () => model.off("change:text", show);
    }
    export default { render };
    """)
    text = traitlets.Unicode("").tag(sync=True)
    label = traitlets.Unicode("Copy").tag(sync=True)

    def __init__(self, text: str = "", **traits: Any) -> None:
        super().__init__(text=text, **traits)

    def __repr__(self) -> str:
        return f"CodeBox({len(self.text.splitlines())} lines)"
