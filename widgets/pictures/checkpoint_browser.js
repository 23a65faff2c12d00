// The browser of a checkpoint in a notebook: the page, and its forms, which the kernel answers.

function render({ model, el }) {
  el.innerHTML = model.get("page");
  const answer = browse(el.querySelector(".kit-browser"), (asked) => model.send(asked));
  model.on("msg:custom", answer);
  return () => model.off("msg:custom", answer);
}

export default { render };
